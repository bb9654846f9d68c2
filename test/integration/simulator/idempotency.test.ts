import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Simulator } from '../../../src/simulator/index.ts';
import { clientOf, errorOf, intentParams, send, startUnlimited } from './support.ts';

const HOUR_MS = 3_600_000;
const INTENT = { amount: '1500', currency: 'usd', 'metadata[chargeonce_customer]': 'raw' };

let simulator: Simulator;
beforeAll(async () => {
  simulator = await startUnlimited();
});
afterAll(() => simulator.close());

describe('a saved reply', () => {
  test('comes back byte for byte, marked, with the request that executed', async () => {
    const first = await send(simulator, '/v1/payment_intents', { body: INTENT, key: 'bytes' });
    const again = await send(simulator, '/v1/payment_intents', { body: INTENT, key: 'bytes' });
    expect(again.text).toBe(first.text);
    expect(first.headers.get('Idempotent-Replayed')).toBeNull();
    expect(first.headers.get('Original-Request')).toBe(first.headers.get('Request-Id'));
    expect(again.headers.get('Idempotent-Replayed')).toBe('true');
    expect(again.headers.get('Original-Request')).toBe(first.headers.get('Request-Id'));
    expect(again.headers.get('Request-Id')).not.toBe(first.headers.get('Request-Id'));
  });

  test('is the decline, even when the card would pay by now', async () => {
    const stripe = clientOf(simulator);
    const intent = await stripe.paymentIntents.create(
      intentParams('saved402', { payment_method: 'pm_card_chargeCustomerFail' }),
    );
    const confirm = () =>
      stripe.paymentIntents.confirm(
        intent.id,
        { off_session: true },
        { idempotencyKey: 'saved-402' },
      );
    const first = await errorOf(confirm());
    await stripe.paymentIntents.update(intent.id, { payment_method: 'pm_card_visa' });
    const again = await errorOf(confirm());
    expect(again).toMatchObject({
      statusCode: 402,
      decline_code: 'generic_decline',
      message: first.message,
    });
    expect(again.headers?.['idempotent-replayed']).toBe('true');
    expect(simulator.ledger({ customer: 'saved402' }).entries[0]?.charges).toHaveLength(1);
  });

  test('is the 500 for ever, while the charge exists and a retrieve shows it', async () => {
    const own = await startUnlimited({
      faults: {
        rules: [{ id: 'f', endpoint: 'payment_intents.confirm', kind: 'actThen500', limit: 1 }],
      },
    });
    try {
      const stripe = clientOf(own);
      const intent = await stripe.paymentIntents.create(intentParams('saved500'));
      for (let round = 0; round < 3; round += 1) {
        const error = await errorOf(
          stripe.paymentIntents.confirm(intent.id, {}, { idempotencyKey: 'saved-500' }),
        );
        expect(error.statusCode).toBe(500);
        expect(error.headers?.['stripe-should-retry']).toBe(round === 0 ? undefined : 'false');
      }
      expect((await stripe.paymentIntents.retrieve(intent.id)).status).toBe('succeeded');
      expect(own.ledger().groups[0]?.succeeded).toBe(1);
    } finally {
      await own.close();
    }
  });

  test('keeps the status of then, while a retrieve shows the present', async () => {
    const own = await startUnlimited();
    try {
      const params = intentParams('frozen', {
        payment_method: 'pm_usBankAccount_processing',
        confirm: true,
        off_session: true,
      });
      const stripe = clientOf(own);
      const first = await stripe.paymentIntents.create(params, { idempotencyKey: 'frozen' });
      own.advanceClock(HOUR_MS);
      const again = await stripe.paymentIntents.create(params, { idempotencyKey: 'frozen' });
      expect([first.status, again.status]).toEqual(['processing', 'processing']);
      expect((await stripe.paymentIntents.retrieve(first.id)).status).toBe('succeeded');
    } finally {
      await own.close();
    }
  });
});

describe('a key', () => {
  test('is refused for other parameters, metadata included, and the first result stays', async () => {
    const first = await send(simulator, '/v1/payment_intents', { body: INTENT, key: 'params' });
    const other = await send(simulator, '/v1/payment_intents', {
      body: { ...INTENT, 'metadata[attempt]': '2' },
      key: 'params',
    });
    expect([other.status, other.json.error.type]).toEqual([400, 'idempotency_error']);
    expect(
      (await send(simulator, '/v1/payment_intents', { body: INTENT, key: 'params' })).text,
    ).toBe(first.text);
  });

  test('is refused on another endpoint and on another object of the same endpoint', async () => {
    const stripe = clientOf(simulator);
    const [one, two] = [
      await stripe.paymentIntents.create(intentParams('e1')),
      await stripe.paymentIntents.create(intentParams('e2')),
    ];
    await stripe.paymentIntents.confirm(one.id, {}, { idempotencyKey: 'endpoint' });
    for (const call of [
      stripe.paymentIntents.confirm(two.id, {}, { idempotencyKey: 'endpoint' }),
      stripe.paymentIntents.cancel(one.id, {}, { idempotencyKey: 'endpoint' }),
    ]) {
      expect(await errorOf(call)).toMatchObject({
        type: 'StripeIdempotencyError',
        statusCode: 400,
      });
    }
  });

  test('is the same request when the parameters come in another order', async () => {
    const first = await send(simulator, '/v1/payment_intents', { body: INTENT, key: 'order' });
    const turned = Object.fromEntries(Object.entries(INTENT).toReversed());
    expect(
      (await send(simulator, '/v1/payment_intents', { body: turned, key: 'order' })).text,
    ).toBe(first.text);
  });

  test.each([
    ['', 400],
    ['k'.repeat(255), 200],
    ['k'.repeat(256), 400],
  ])('of wrong or right length is judged by its length (%#)', async (key, status) => {
    expect((await send(simulator, '/v1/payment_intents', { body: INTENT, key })).status).toBe(
      status,
    );
  });

  test('is ignored on GET, and a POST without one has no protection', async () => {
    await send(simulator, '/v1/account', { key: 'get' });
    expect(
      (await send(simulator, '/v1/payment_intents', { body: INTENT, key: 'get' })).headers.get(
        'Idempotent-Replayed',
      ),
    ).toBeNull();
    const unkeyed = [
      await send(simulator, '/v1/payment_intents', { body: INTENT }),
      await send(simulator, '/v1/payment_intents', { body: INTENT }),
    ];
    expect(unkeyed[0]?.json.id).not.toBe(unkeyed[1]?.json.id);
  });

  test('is not used up by 401, 409 and 429', async () => {
    const own = await startUnlimited({
      faults: {
        rules: [
          { id: '409', endpoint: '*', kind: 'status409', nth: 1 },
          { id: '429', endpoint: '*', kind: 'status429', nth: 2 },
        ],
      },
    });
    try {
      const request = { body: INTENT, key: 'unused' };
      const statuses = [];
      statuses.push((await send(own, '/v1/payment_intents', request)).status);
      statuses.push((await send(own, '/v1/payment_intents', request)).status);
      statuses.push(
        (await send(own, '/v1/payment_intents', { ...request, headers: { Authorization: 'no' } }))
          .status,
      );
      const done = await send(own, '/v1/payment_intents', request);
      expect([...statuses, done.status]).toEqual([409, 429, 401, 200]);
      expect(done.headers.get('Idempotent-Replayed')).toBeNull();
    } finally {
      await own.close();
    }
  });
});

describe('while the first request runs', () => {
  test('a second with its key gets 409 idempotency_key_in_use, and later the saved reply', async () => {
    const own = await startUnlimited({ latencyMs: 150 });
    try {
      const request = { body: INTENT, key: 'busy' };
      const running = send(own, '/v1/payment_intents', request);
      await expect.poll(() => own.counters().maxPerSecond['payment_intents.create'] ?? 0).toBe(1);
      const second = await send(own, '/v1/payment_intents', request);
      expect([second.status, second.json.error.type, second.json.error.code]).toEqual([
        409,
        'invalid_request_error',
        'idempotency_key_in_use',
      ]);
      const first = await running;
      expect((await send(own, '/v1/payment_intents', request)).text).toBe(first.text);
      expect(own.ledger().entries).toHaveLength(1);
    } finally {
      await own.close();
    }
  });

  test('a second with another key on the same intent gets 429 lock_timeout and is told to retry', async () => {
    const own = await startUnlimited({ latencyMs: 150 });
    try {
      const intent = (
        await send(own, '/v1/payment_intents', {
          body: { ...INTENT, payment_method: 'pm_card_visa' },
        })
      ).json.id;
      const path = `/v1/payment_intents/${intent}/confirm`;
      const replies = await Promise.all([
        send(own, path, { body: {}, key: 'lock1' }),
        send(own, path, { body: {}, key: 'lock2' }),
      ]);
      const [paid, locked] = replies.toSorted((a, b) => a.status - b.status);
      expect(paid?.json.status).toBe('succeeded');
      expect([locked?.status, locked?.json.error.code]).toEqual([429, 'lock_timeout']);
      expect(locked?.headers.get('Stripe-Should-Retry')).toBe('true');
      expect(locked?.headers.get('Stripe-Rate-Limited-Reason')).toBeNull();
      expect(own.ledger().groups[0]?.succeeded).toBe(1);
    } finally {
      await own.close();
    }
  });
});

describe('age', () => {
  test('a key of 23 h 59 min still replays; one of 24 h executes again', async () => {
    const own = await startUnlimited();
    try {
      const request = {
        body: { ...INTENT, payment_method: 'pm_card_visa', confirm: 'true' },
        key: 'old',
      };
      const first = await send(own, '/v1/payment_intents', request);
      own.advanceClock(24 * HOUR_MS - 60_000);
      expect((await send(own, '/v1/payment_intents', request)).text).toBe(first.text);
      own.advanceClock(60_000);
      const again = await send(own, '/v1/payment_intents', request);
      expect(again.headers.get('Idempotent-Replayed')).toBeNull();
      expect(again.json.id).not.toBe(first.json.id);
      expect(own.ledger().groups[0]?.succeeded).toBe(2);
    } finally {
      await own.close();
    }
  });

  test('cannot be set below 24 h', async () => {
    await expect(startUnlimited({ idempotencyRetentionMs: 23 * HOUR_MS })).rejects.toThrow(
      RangeError,
    );
  });
});
