import { describe, expect, test } from 'vitest';
import type { FaultRule, Simulator } from '../../../src/simulator/index.ts';
import { clientOf, errorOf, intentParams, send, startUnlimited } from './support.ts';

async function withRules(
  rules: readonly FaultRule[],
  work: (simulator: Simulator) => Promise<void>,
): Promise<void> {
  const simulator = await startUnlimited({ faults: { seed: 7, rules } });
  try {
    await work(simulator);
  } finally {
    await simulator.close();
  }
}

const CONFIRM = 'payment_intents.confirm';
const fired = (simulator: Simulator) => simulator.counters().faults.map((rule) => rule.fired);

describe('a reply lost after execution', () => {
  test('leads to one charge, because the second send replays under the same key', () =>
    withRules(
      [{ id: 'lost', endpoint: CONFIRM, kind: 'actThenDrop', nth: 1 }],
      async (simulator) => {
        const stripe = clientOf(simulator);
        const intent = await stripe.paymentIntents.create(intentParams('lost'));
        // stripe-node sends once more after a reset, with its retries off.
        const paid = await stripe.paymentIntents.confirm(
          intent.id,
          { off_session: true },
          { idempotencyKey: 'lost' },
        );
        expect(paid.status).toBe('succeeded');
        expect(paid.lastResponse.headers['idempotent-replayed']).toBe('true');
        const sends = simulator.requests().filter(({ endpoint }) => endpoint === CONFIRM);
        expect(
          sends.map(({ status, executed, replayed, fault }) => ({
            status,
            executed,
            replayed,
            fault,
          })),
        ).toEqual([
          { status: 0, executed: true, replayed: false, fault: 'lost' },
          { status: 200, executed: false, replayed: true, fault: null },
        ]);
        expect(simulator.ledger().groups).toMatchObject([{ succeeded: 1 }]);
      },
    ));

  test('leads to two charges when the second send has a new key: the simulator shows the bug it is built to show', () =>
    withRules(
      [{ id: 'lost', endpoint: 'payment_intents.create', kind: 'actThenDrop', nth: [1, 2] }],
      async (simulator) => {
        const stripe = clientOf(simulator);
        const params = intentParams('naive', { confirm: true, off_session: true });
        expect((await errorOf(stripe.paymentIntents.create(params))).type).toBe(
          'StripeConnectionError',
        );
        await stripe.paymentIntents.create(params);
        expect(simulator.ledger().groups).toMatchObject([{ succeeded: 2 }]);
      },
    ));
});

describe.each([
  ['refuse', 'StripeConnectionError'],
  ['resetBefore', 'StripeConnectionError'],
] as const)('%s', (kind, type) => {
  test('cuts the connection and executes nothing, on a kept-alive socket too', () =>
    withRules([{ id: 'cut', endpoint: CONFIRM, kind, nth: [1, 2] }], async (simulator) => {
      const stripe = clientOf(simulator);
      const intent = await stripe.paymentIntents.create(intentParams('cut'));
      expect(
        (await errorOf(stripe.paymentIntents.confirm(intent.id, {}, { idempotencyKey: 'cut' })))
          .type,
      ).toBe(type);
      expect((await stripe.paymentIntents.retrieve(intent.id)).status).toBe(
        'requires_confirmation',
      );
      expect(
        (await stripe.paymentIntents.confirm(intent.id, {}, { idempotencyKey: 'cut' })).status,
      ).toBe('succeeded');
      expect(fired(simulator)).toEqual([2]);
      const cut = simulator.requests().filter(({ fault }) => fault === 'cut');
      expect(cut).toMatchObject([
        { status: 0, account: 'acct_A', executed: false, idempotencyKey: 'cut' },
        { status: 0, account: 'acct_A', executed: false, idempotencyKey: 'cut' },
      ]);
    }));
});

describe('a 500', () => {
  test('before the effect is saved under the key and leaves nothing behind', () =>
    withRules(
      [
        {
          id: 'f',
          endpoint: 'payment_intents.create',
          kind: 'fail500',
          nth: 1,
          shouldRetry: false,
        },
      ],
      async (simulator) => {
        const stripe = clientOf(simulator);
        for (let round = 0; round < 2; round += 1) {
          const error = await errorOf(
            stripe.paymentIntents.create(intentParams('none'), { idempotencyKey: 'none' }),
          );
          expect(error).toMatchObject({ statusCode: 500, rawType: 'api_error' });
          expect(error.headers?.['stripe-should-retry']).toBe('false');
        }
        expect(simulator.ledger().entries).toEqual([]);
        expect(fired(simulator)).toEqual([1]);
      },
    ));

  test('whose charge succeeds later shows nothing until then, and an event after', () =>
    withRules(
      [{ id: 'late', endpoint: CONFIRM, kind: 'lateSuccess500', limit: 1, delayMs: 30_000 }],
      async (simulator) => {
        const stripe = clientOf(simulator);
        const intent = await stripe.paymentIntents.create(intentParams('late'));
        expect(
          (await errorOf(stripe.paymentIntents.confirm(intent.id, {}, { idempotencyKey: 'late' })))
            .statusCode,
        ).toBe(500);
        expect((await stripe.paymentIntents.retrieve(intent.id)).status).toBe(
          'requires_confirmation',
        );
        simulator.advanceClock(30_000);
        expect(
          (await errorOf(stripe.paymentIntents.confirm(intent.id, {}, { idempotencyKey: 'late' })))
            .statusCode,
        ).toBe(500);
        expect((await stripe.paymentIntents.retrieve(intent.id)).status).toBe('succeeded');
        const events = await stripe.events.list({ type: 'payment_intent.succeeded' });
        expect(events.data[0]?.request).toMatchObject({ idempotency_key: 'late' });
      },
    ));

  test('whose charge would succeed later charges once when the intent was confirmed in between', () =>
    withRules(
      [{ id: 'late', endpoint: CONFIRM, kind: 'lateSuccess500', limit: 1 }],
      async (simulator) => {
        const stripe = clientOf(simulator);
        const intent = await stripe.paymentIntents.create(intentParams('late2'));
        await errorOf(stripe.paymentIntents.confirm(intent.id, {}, { idempotencyKey: 'late2' }));
        await stripe.paymentIntents.confirm(intent.id, {}, { idempotencyKey: 'late2-other' });
        simulator.advanceClock(60_000);
        expect(simulator.ledger().groups).toMatchObject([{ succeeded: 1, failed: 0 }]);
      },
    ));
});

describe('replies that cannot be trusted', () => {
  test.each([
    ['truncate', { type: 'StripeConnectionError' }],
    ['wrongContentType', { type: 'StripeAPIError' }],
  ] as const)('%s hides a charge that took effect', (kind, expected) =>
    withRules([{ id: 'spoilt', endpoint: CONFIRM, kind, nth: [1, 2] }], async (simulator) => {
      const stripe = clientOf(simulator);
      const intent = await stripe.paymentIntents.create(intentParams(kind));
      expect(
        await errorOf(stripe.paymentIntents.confirm(intent.id, {}, { idempotencyKey: kind })),
      ).toMatchObject(expected);
      expect(simulator.ledger().groups).toMatchObject([{ succeeded: 1 }]);
    }),
  );

  test('a doubled reply does not charge twice', () =>
    withRules(
      [{ id: 'double', endpoint: CONFIRM, kind: 'doubleReply', nth: 1 }],
      async (simulator) => {
        const stripe = clientOf(simulator);
        const intent = await stripe.paymentIntents.create(intentParams('double'));
        expect((await stripe.paymentIntents.confirm(intent.id)).status).toBe('succeeded');
        expect(fired(simulator)).toEqual([1]);
        expect(simulator.ledger().groups).toMatchObject([{ succeeded: 1 }]);
      },
    ));
});

describe('statuses of the edge', () => {
  test.each([
    ['status409', { statusCode: 409, code: 'idempotency_key_in_use' }],
    [
      'status429',
      {
        statusCode: 429,
        code: 'rate_limit',
        headers: { 'stripe-rate-limited-reason': 'endpoint-rate' },
      },
    ],
    ['status502', { statusCode: 502, rawType: 'api_error' }],
    ['status503', { statusCode: 503, rawType: 'api_error' }],
    ['status504', { statusCode: 504, rawType: 'api_error' }],
  ] as const)('%s executes nothing and saves nothing', (kind, expected) =>
    withRules([{ id: 'edge', endpoint: CONFIRM, kind, nth: 1 }], async (simulator) => {
      const stripe = clientOf(simulator);
      const intent = await stripe.paymentIntents.create(intentParams(kind));
      const confirm = () => stripe.paymentIntents.confirm(intent.id, {}, { idempotencyKey: kind });
      const error = await errorOf(confirm());
      expect(error).toMatchObject(expected);
      expect(error.headers?.['stripe-should-retry']).toBeUndefined();
      expect((await stripe.paymentIntents.retrieve(intent.id)).status).toBe(
        'requires_confirmation',
      );
      expect((await confirm()).status).toBe('succeeded');
    }),
  );

  test('a gateway failure behind which Stripe has acted gives the real result to the next send', () =>
    withRules(
      [{ id: 'edge', endpoint: CONFIRM, kind: 'status504', act: true, nth: 1, shouldRetry: true }],
      async (simulator) => {
        const stripe = clientOf(simulator);
        const intent = await stripe.paymentIntents.create(intentParams('acted'));
        const error = await errorOf(
          stripe.paymentIntents.confirm(intent.id, {}, { idempotencyKey: 'acted' }),
        );
        expect(error.statusCode).toBe(504);
        expect(error.headers?.['stripe-should-retry']).toBe('true');
        const paid = await stripe.paymentIntents.confirm(
          intent.id,
          {},
          { idempotencyKey: 'acted' },
        );
        expect(paid.lastResponse.headers['idempotent-replayed']).toBe('true');
      },
    ));
});

describe('other kinds', () => {
  test('slow keeps the key in flight and charges although the client has given up', () =>
    withRules(
      [{ id: 'slow', endpoint: CONFIRM, kind: 'slow', delayMs: 300, nth: 1 }],
      async (simulator) => {
        const stripe = clientOf(simulator);
        const intent = await stripe.paymentIntents.create(intentParams('slow'));
        const error = await errorOf(
          stripe.paymentIntents.confirm(intent.id, {}, { idempotencyKey: 'slow', timeout: 50 }),
        );
        expect(error.type).toBe('StripeConnectionError');
        const busy = await errorOf(
          stripe.paymentIntents.confirm(intent.id, {}, { idempotencyKey: 'slow' }),
        );
        expect(busy.code).toBe('idempotency_key_in_use');
        await expect.poll(() => simulator.ledger().groups[0]?.succeeded).toBe(1);
      },
    ));

  test('declineOnce declines a good card with the given code, and is saved', () =>
    withRules(
      [
        {
          id: 'd',
          endpoint: CONFIRM,
          kind: 'declineOnce',
          limit: 1,
          declineCode: 'processing_error',
        },
      ],
      async (simulator) => {
        const stripe = clientOf(simulator);
        const intent = await stripe.paymentIntents.create(intentParams('once'));
        const confirm = (idempotencyKey: string) =>
          stripe.paymentIntents.confirm(
            intent.id,
            { payment_method: 'pm_card_visa' },
            { idempotencyKey },
          );
        for (let round = 0; round < 2; round += 1) {
          expect(await errorOf(confirm('once'))).toMatchObject({
            statusCode: 402,
            decline_code: 'processing_error',
          });
        }
        expect((await confirm('once-2')).status).toBe('succeeded');
      },
    ));

  test('a rule with `where` spoils only the intents with that metadata, by path too', () =>
    withRules(
      [
        {
          id: 'w',
          endpoint: 'payment_intents.*',
          kind: 'status503',
          where: { chargeonce_customer: 'unlucky' },
        },
      ],
      async (simulator) => {
        const stripe = clientOf(simulator);
        const lucky = await stripe.paymentIntents.create(intentParams('lucky'));
        expect((await stripe.paymentIntents.confirm(lucky.id)).status).toBe('succeeded');
        expect(
          (await errorOf(stripe.paymentIntents.create(intentParams('unlucky')))).statusCode,
        ).toBe(503);
        expect(fired(simulator)).toEqual([1]);
      },
    ));

  test('a fault that met a refused request is not counted as fired', () =>
    withRules(
      [{ id: 'f', endpoint: 'payment_intents.create', kind: 'actThenDrop' }],
      async (simulator) => {
        expect(
          (await send(simulator, '/v1/payment_intents', { body: { amount: '1' } })).status,
        ).toBe(400);
        expect(simulator.counters().faults).toMatchObject([{ matched: 1, fired: 0 }]);
      },
    ));

  test('a plan is replaced through the control API, and a bad one refused with the reason', () =>
    withRules([], async (simulator) => {
      const post = (body: unknown) =>
        fetch(`${simulator.url}/_sim/faults`, { method: 'POST', body: JSON.stringify(body) });
      expect(
        (await post({ seed: 1, rules: [{ id: 'x', endpoint: '*', kind: 'status503' }] })).status,
      ).toBe(200);
      expect((await send(simulator, '/v1/account')).status).toBe(503);
      expect((await post({})).status).toBe(200);
      expect((await send(simulator, '/v1/account')).status).toBe(200);
      const bad = await post({ rules: [{ id: 'x', endpoint: '*', kind: 'explode' }] });
      expect([bad.status, await bad.text()]).toEqual([400, expect.stringContaining('explode')]);
    }));
});
