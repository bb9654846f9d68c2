import { createServer } from 'node:http';
import type { Server } from 'node:http';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type Stripe from 'stripe';
import type { Simulator, WebhookOptions } from '../../../src/simulator/index.ts';
import { clientOf, intentParams, readControl, startUnlimited } from './support.ts';

const SECRET = 'whsec_simulator';
interface Received {
  readonly payload: string;
  readonly signature: string;
  readonly event: Stripe.Event;
}

let endpoint: Server;
let url: string;
let received: Received[];
/** Status for the n-th delivery, counted from 0. */
let answer: (n: number) => number;

beforeEach(async () => {
  received = [];
  answer = () => 200;
  endpoint = createServer((req, res) => {
    const chunks: Buffer[] = [];
    req.on('data', (chunk: Buffer) => chunks.push(chunk));
    req.on('end', () => {
      const payload = Buffer.concat(chunks).toString();
      res.statusCode = answer(received.length);
      received.push({
        payload,
        signature: String(req.headers['stripe-signature']),
        event: JSON.parse(payload),
      });
      res.end();
    });
  });
  await new Promise<void>((resolve) => {
    endpoint.listen(0, '127.0.0.1', resolve);
  });
  const address = endpoint.address();
  if (address === null || typeof address === 'string') throw new Error('no port');
  url = `http://127.0.0.1:${address.port}/hook`;
});
afterEach(() => {
  endpoint.closeAllConnections();
  endpoint.close();
});

async function withWebhook(
  more: Partial<WebhookOptions>,
  work: (simulator: Simulator, stripe: Stripe) => Promise<void>,
): Promise<void> {
  const simulator = await startUnlimited({ webhook: { url, secret: SECRET, ...more } });
  try {
    await work(simulator, clientOf(simulator));
  } finally {
    await simulator.close();
  }
}

function at(n: number): Received {
  const one = received[n];
  if (one === undefined) throw new Error(`delivery ${n} did not come`);
  return one;
}

const types = () => received.map(({ event }) => event.type);
const verify = (stripe: Stripe, { payload, signature }: Pick<Received, 'payload' | 'signature'>) =>
  stripe.webhooks.constructEvent(payload, signature, SECRET);

describe('webhooks', () => {
  test('are signed so that the official client accepts them, and name the key of their request', () =>
    withWebhook({ beforeReply: true }, async (_simulator, stripe) => {
      const intent = await stripe.paymentIntents.create(intentParams('hook', { confirm: true }), {
        idempotencyKey: 'hook',
      });
      expect(types().sort()).toEqual([
        'charge.succeeded',
        'payment_intent.created',
        'payment_intent.succeeded',
      ]);
      for (const one of received) {
        expect(verify(stripe, one).request?.idempotency_key).toBe('hook');
      }
      const done = received.find(({ event }) => event.type === 'payment_intent.succeeded');
      expect(done?.event.data.object).toMatchObject({ id: intent.id, status: 'succeeded' });
      expect((await stripe.events.retrieve(String(done?.event.id))).pending_webhooks).toBe(0);
    }));

  test('show the object as it was at their moment', () =>
    withWebhook({ beforeReply: true }, async (_simulator, stripe) => {
      const intent = await stripe.paymentIntents.create(intentParams('moment'));
      await stripe.paymentIntents.confirm(intent.id);
      const created = (await stripe.events.list({ type: 'payment_intent.created' })).data[0];
      expect(created?.data.object).toMatchObject({
        status: 'requires_confirmation',
        latest_charge: null,
      });
    }));

  test('arrive before the reply when told to', () =>
    withWebhook({ beforeReply: true }, async (_simulator, stripe) => {
      await stripe.paymentIntents.create(intentParams('early'));
      expect(types()).toEqual(['payment_intent.created']);
    }));

  test('are sent again after a non-2xx until one is accepted', () =>
    withWebhook({ retryDelayMs: 20 }, async (simulator, stripe) => {
      answer = (n) => (n < 2 ? 500 : 200);
      await stripe.paymentIntents.create(intentParams('again'));
      await expect.poll(() => received.length).toBe(3);
      expect(new Set(received.map(({ event }) => event.id)).size).toBe(1);
      const log = await readControl(simulator, 'webhooks');
      expect(log.deliveries.map((one) => [one.attempt, one.status])).toEqual([
        [1, 500],
        [2, 500],
        [3, 200],
      ]);
    }));

  test('come late when told to, long after the reply', () =>
    withWebhook({ delayMs: 150 }, async (simulator, stripe) => {
      const intent = await stripe.paymentIntents.create(intentParams('tardy'));
      expect(received).toEqual([]);
      await expect.poll(types).toEqual(['payment_intent.created']);
      expect(at(0).event.data.object).toMatchObject({ id: intent.id });
      expect(simulator.counters().requests).toBe(1);
    }));

  test('come only of the types that the endpoint has asked for', () =>
    withWebhook({ types: ['charge.succeeded'], beforeReply: true }, async (_simulator, stripe) => {
      await stripe.paymentIntents.create(intentParams('some', { confirm: true }));
      expect(types()).toEqual(['charge.succeeded']);
    }));

  test('are duplicated when told to', () =>
    withWebhook({ copies: 3, beforeReply: true }, async (_simulator, stripe) => {
      await stripe.paymentIntents.create(intentParams('copies'));
      expect(new Set(received.map(({ event }) => event.id)).size).toBe(1);
      expect(received).toHaveLength(3);
    }));

  test('are held, then delivered in another order, with a wrong signature, or with an old timestamp', () =>
    withWebhook({ mode: 'hold' }, async (simulator, stripe) => {
      await stripe.paymentIntents.create(intentParams('held', { confirm: true }));
      expect(received).toEqual([]);
      answer = () => 500;
      await simulator.deliver({ order: 'reverse' });
      expect(types()).toEqual([
        'payment_intent.succeeded',
        'charge.succeeded',
        'payment_intent.created',
      ]);
      received = [];
      await simulator.deliver({ order: 'shuffle', seed: 3, copies: 2 });
      const shuffled = types();
      expect(shuffled).toHaveLength(6);
      received = [];
      await simulator.deliver({ order: 'shuffle', seed: 3, copies: 2 });
      expect(types()).toEqual(shuffled);
      received = [];
      await simulator.deliver({ wrongSignature: true, types: ['charge.succeeded'] });
      expect(() => verify(stripe, at(0))).toThrow(/signature/i);
      await simulator.deliver({ timestampOffsetSeconds: -400, types: ['charge.succeeded'] });
      expect(() => verify(stripe, at(1))).toThrow(/tolerance/i);
      answer = () => 200;
      const over = await fetch(`${simulator.url}/_sim/webhooks/deliver`, {
        method: 'POST',
        body: '{}',
      });
      expect(await over.json()).toMatchObject({
        deliveries: [{ status: 200 }, { status: 200 }, { status: 200 }],
      });
      expect(await simulator.deliver()).toEqual([]);
    }));

  test('tell of a charge that succeeds by the clock alone, with no request to name', () =>
    withWebhook({}, async (simulator, stripe) => {
      await stripe.paymentIntents.create(
        intentParams('clock', { payment_method: 'pm_usBankAccount_success', confirm: true }),
        { idempotencyKey: 'clock' },
      );
      simulator.advanceClock(60_000);
      await expect.poll(types).toContain('payment_intent.succeeded');
      const done = received.find(({ event }) => event.type === 'payment_intent.succeeded');
      expect(done?.event.request).toEqual({ id: null, idempotency_key: null });
    }));
});
