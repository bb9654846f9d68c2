import { describe, expect, test } from 'vitest';
import { startSimulator } from '../../../src/simulator/index.ts';
import { clientOf, errorOf, intentParams, readControl, send, startUnlimited } from './support.ts';

describe('rate limits', () => {
  test('answers 429 with its reason past the burst of an endpoint, and leaves other endpoints alone', async () => {
    const simulator = await startSimulator({ endpointRate: 5, endpointBurst: 3, accountRate: 0 });
    try {
      const replies = await Promise.all(
        Array.from({ length: 5 }, (_, n) =>
          send(simulator, '/v1/payment_intents', {
            body: { amount: '500', currency: 'usd' },
            key: `r${n}`,
          }),
        ),
      );
      expect(replies.map(({ status }) => status).sort((a, b) => a - b)).toEqual([
        200, 200, 200, 429, 429,
      ]);
      const refused = replies.find(({ status }) => status === 429);
      expect(refused?.json.error).toMatchObject({
        type: 'invalid_request_error',
        code: 'rate_limit',
      });
      expect(refused?.headers.get('Stripe-Rate-Limited-Reason')).toBe('endpoint-rate');
      expect((await send(simulator, '/v1/account')).status).toBe(200);
      expect(simulator.counters()).toMatchObject({
        rateLimited: 2,
        maxPerSecond: { 'payment_intents.create': 5 },
      });
    } finally {
      await simulator.close();
    }
  });

  test('limits an account over all endpoints, and another account not at all', async () => {
    const simulator = await startSimulator({ endpointRate: 0, accountRate: 1, accountBurst: 1 });
    try {
      expect((await send(simulator, '/v1/account')).status).toBe(200);
      const refused = await send(simulator, '/v1/events');
      expect([refused.status, refused.headers.get('Stripe-Rate-Limited-Reason')]).toEqual([
        429,
        'global-rate',
      ]);
      expect((await send(simulator, '/v1/account', { secret: 'sk_test_acctB_1' })).status).toBe(
        200,
      );
      expect((await send(simulator, '/v1/account', { secret: 'sk_live_acctA_1' })).status).toBe(
        200,
      );
    } finally {
      await simulator.close();
    }
  });

  test('stands in front of the keys: a saved reply is not given past the limit', async () => {
    const simulator = await startSimulator({ endpointRate: 1, endpointBurst: 1 });
    try {
      const request = { body: { amount: '500', currency: 'usd' }, key: 'k' };
      expect((await send(simulator, '/v1/payment_intents', request)).status).toBe(200);
      expect((await send(simulator, '/v1/payment_intents', request)).status).toBe(429);
    } finally {
      await simulator.close();
    }
  });
});

describe('tenants', () => {
  test('two accounts, and two modes of one, share neither keys nor objects', async () => {
    const simulator = await startUnlimited();
    try {
      const secrets = ['sk_test_acctA_1', 'sk_test_acctB_1', 'sk_live_acctA_1'];
      const intents = [];
      for (const secret of secrets) {
        intents.push(
          await clientOf(simulator, secret).paymentIntents.create(
            intentParams('same', { confirm: true }),
            { idempotencyKey: 'same' },
          ),
        );
      }
      expect(new Set(intents.map(({ id }) => id)).size).toBe(3);
      expect(intents.map(({ livemode }) => livemode)).toEqual([false, false, true]);
      for (const secret of secrets) {
        const stripe = clientOf(simulator, secret);
        expect((await stripe.paymentIntents.list()).data).toHaveLength(1);
        expect((await stripe.events.list({ limit: 100 })).data).toHaveLength(3);
      }
      const paged: string[] = [];
      for (let next: string | null = ''; next !== null;) {
        const after: string = next === '' ? '' : `&after=${next}`;
        const page = await readControl(simulator, 'ledger', `?limit=1${after}`);
        paged.push(...page.entries.map(({ paymentIntent }) => paymentIntent));
        next = page.next;
      }
      expect(paged).toEqual(intents.map(({ id }) => id));
      const foreign = errorOf(
        clientOf(simulator, 'sk_test_acctB_1').paymentIntents.retrieve(String(intents[0]?.id)),
      );
      expect((await foreign).code).toBe('resource_missing');
      expect(
        simulator
          .ledger()
          .groups.map(({ account, livemode, succeeded }) => [account, livemode, succeeded]),
      ).toEqual([
        ['acct_A', false, 1],
        ['acct_B', false, 1],
        ['acct_A', true, 1],
      ]);
    } finally {
      await simulator.close();
    }
  });

  test('keys of one suffix belong to one account, whatever their kind', async () => {
    const simulator = await startUnlimited();
    try {
      const ids = [];
      for (const secret of [
        'sk_test_4eC39Hq',
        'rk_test_4eC39Hq',
        'sk_live_4eC39Hq',
        'sk_test_other',
      ]) {
        ids.push((await clientOf(simulator, secret).accounts.retrieveCurrent()).id);
      }
      expect(ids[1]).toBe(ids[0]);
      expect(ids[2]).toBe(ids[0]);
      expect(ids[3]).not.toBe(ids[0]);
    } finally {
      await simulator.close();
    }
  });
});
