import Stripe from 'stripe';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { AttemptAnswer } from '../../src/domain/charge.ts';
import { IdempotencyKeyMissing, KeyGuardTransport } from '../../src/payments/key-guard.ts';
import type { FrozenSend } from '../../src/payments/gateway.ts';
import { createStripeGateway } from '../../src/payments/stripe-gateway.ts';
import {
  startWireServer,
  type WireAction,
  type WireRequest,
  type WireServer,
} from '../../failures/harness/wire-server.ts';

const INTENT = {
  id: 'pi_1',
  object: 'payment_intent',
  status: 'requires_confirmation',
  amount: 1500,
  currency: 'usd',
  customer: 'cus_1',
  metadata: {},
};
let server: WireServer;
let script: (request: WireRequest, count: number) => WireAction;
let gateway: ReturnType<typeof createStripeGateway>;

beforeAll(async () => {
  server = await startWireServer((request, count) => script(request, count));
  gateway = createStripeGateway({ apiKey: 'sk_test_1', apiBase: server.url, timeoutMs: 2_000 });
});
beforeEach(() => {
  server.requests.length = 0;
  script = () => ({ status: 200, body: INTENT });
});
afterAll(async () => {
  gateway.close();
  await server.close();
});

interface Resend {
  readonly attemptId: string;
  readonly lost: AttemptAnswer;
}
const resends: Resend[] = [];
const send = (parts: Partial<FrozenSend> = {}): FrozenSend => ({
  idempotencyKey: 'bill.v1.k',
  body: 'amount=1500&currency=usd',
  apiVersion: gateway.apiVersion,
  attemptId: 'attempt-1',
  onResend: async (resend) => {
    resends.push(resend);
  },
  ...parts,
});

describe('a POST', () => {
  it('D3: carries our key as a header and as no field of the body', async () => {
    await gateway.createPaymentIntent(send());
    const [request] = server.requests;
    expect(request?.headers['idempotency-key']).toBe('bill.v1.k');
    expect(request?.body).not.toMatch(/idempot|bill\.v1/i);
  });

  it('sends the frozen bytes and version, whatever the SDK would have made of them', async () => {
    const body = 'b=2&a=1&metadata[x]=%C3%A4';
    await gateway.createPaymentIntent(send({ body, apiVersion: '2019-01-01' }));
    const [request] = server.requests;
    expect(request?.body).toBe(body);
    expect(request?.headers['content-length']).toBe(String(Buffer.byteLength(body)));
    expect(request?.headers['stripe-version']).toBe('2019-01-01');
  });

  it.each([
    ['D4: an empty key', ''],
    ['D4, D5: a key of 256 characters', 'k'.repeat(256)],
    ['D7: a line break', 'a\nb'],
    ['D7: a NUL', 'a\u0000b'],
    ['D7: a character outside ASCII', 'schlüssel'],
    ['D7: a space', 'a b'],
    ['a key of the SDK', 'stripe-node-retry-1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed'],
  ])('does not leave with %s', async (_what, idempotencyKey) => {
    await expect(gateway.createPaymentIntent(send({ idempotencyKey }))).rejects.toBeInstanceOf(
      IdempotencyKeyMissing,
    );
    expect(server.requests).toHaveLength(0);
  });

  it('D4: leaves with a key of 255 characters', async () => {
    await gateway.createPaymentIntent(send({ idempotencyKey: 'k'.repeat(255) }));
    expect(server.requests[0]?.headers['idempotency-key']).toBe('k'.repeat(255));
  });

  it('B8: does not leave with the key that the SDK makes up, by whatever method of the SDK', async () => {
    const transport = new KeyGuardTransport(Stripe.createNodeHttpClient());
    const { hostname, port } = new URL(server.url);
    const stripe = new Stripe('sk_test_1', {
      httpClient: transport,
      host: hostname,
      port,
      protocol: 'http',
      maxNetworkRetries: 0,
      telemetry: false,
    });
    const calls = [
      () => stripe.paymentIntents.create({ amount: 1500, currency: 'usd' }),
      () => stripe.customers.create({}),
      () => stripe.rawRequest('POST', '/v1/refunds', { charge: 'ch_1' }),
    ];
    for (const call of calls) {
      await expect(call()).rejects.toMatchObject({ detail: expect.any(IdempotencyKeyMissing) });
    }
    expect(server.requests).toHaveLength(0);
    await stripe.paymentIntents.create(
      { amount: 1500, currency: 'usd' },
      { idempotencyKey: 'mine' },
    );
    expect(server.requests).toHaveLength(1);
    expect(server.requests[0]?.headers['x-attempt-id']).toMatch(/^[0-9a-f-]{36}$/);
  });
});

describe('an attempt id', () => {
  it('goes out as a header and never into the body', async () => {
    await gateway.confirmPaymentIntent('pi_1', send({ attemptId: 'attempt-7' }));
    expect(server.requests[0]?.headers['x-attempt-id']).toBe('attempt-7');
    expect(server.requests[0]?.body).not.toContain('attempt-7');
  });

  it('O2: is fresh for the resend of the SDK, which keeps key and bytes and is told before it leaves', async () => {
    resends.length = 0;
    let toldBeforeSecond = 0;
    script = (_request, count) => {
      if (count === 1) return 'close';
      toldBeforeSecond = resends.length;
      return { status: 200, body: INTENT };
    };
    const reply = await gateway.createPaymentIntent(send());
    expect(server.requests).toHaveLength(2);
    const [first, second] = server.requests;
    expect(second?.headers['idempotency-key']).toBe(first?.headers['idempotency-key']);
    expect(second?.body).toBe(first?.body);
    expect(first?.headers['x-attempt-id']).toBe('attempt-1');
    expect(second?.headers['x-attempt-id']).not.toBe('attempt-1');
    expect(toldBeforeSecond).toBe(1);
    expect(resends[0]).toMatchObject({
      attemptId: second?.headers['x-attempt-id'],
      lost: { attemptId: 'attempt-1', httpStatus: null },
    });
    expect(reply).toMatchObject({
      kind: 'intent',
      answer: { attemptId: second?.headers['x-attempt-id'], httpStatus: 200 },
    });
  });

  it('is not sent again when the resend cannot be recorded', async () => {
    script = () => 'close';
    const reply = gateway.createPaymentIntent(
      send({ onResend: () => Promise.reject(new Error('database away')) }),
    );
    expect((await reply).kind).toBe('lost');
    expect(server.requests).toHaveLength(1);
  });
});

describe('a reply', () => {
  const refused = (status: number, error: object, headers: Record<string, string> = {}) => {
    script = () => ({ status, body: { error }, headers });
    return gateway.createPaymentIntent(send());
  };

  it('is a refusal in the words of Stripe, with what its headers say', async () => {
    const reply = await refused(
      402,
      {
        type: 'card_error',
        code: 'card_declined',
        decline_code: 'lost_card',
        advice_code: 'confirm_card_data',
        message: 'No.',
        payment_intent: INTENT,
      },
      { 'Stripe-Should-Retry': 'false', 'Retry-After': '3', 'Idempotent-Replayed': 'true' },
    );
    expect(reply).toMatchObject({
      kind: 'refused',
      refusal: {
        status: 402,
        type: 'card_error',
        code: 'card_declined',
        declineCode: 'lost_card',
        adviceCode: 'confirm_card_data',
        shouldRetry: false,
        retryAfterMs: 3_000,
        paymentIntent: { id: 'pi_1' },
      },
      answer: { httpStatus: 402, stripeRequestId: 'req_fake', replayed: true },
    });
  });

  it.each([
    ['3', 3_000],
    ['999999', 60_000],
    ['0', null],
    ['-1', null],
    ['Wed, 21 Oct 2026 07:28:00 GMT', null],
  ])('asks for patience with Retry-After: %s, within bounds', async (header, retryAfterMs) => {
    const reply = await refused(429, { type: 'api_error' }, { 'Retry-After': header });
    expect(reply).toMatchObject({ refusal: { status: 429, retryAfterMs } });
  });

  it('keeps the type that only its body knows, for a 400 as for a 402 of the vault', async () => {
    expect(await refused(400, { type: 'idempotency_error' })).toMatchObject({
      refusal: { type: 'idempotency_error' },
    });
    expect(await refused(402, { type: 'vault_error', code: 'cap_exceeded' })).toMatchObject({
      refusal: { type: 'vault_error' },
    });
  });

  it.each([200, 400, 402, 404])('is lost when a %i cannot be read', async (status) => {
    script = () => ({ status, raw: '{"id":"pi_1","obj' });
    expect(await gateway.createPaymentIntent(send())).toMatchObject({
      kind: 'lost',
      answer: { httpStatus: status },
    });
  });

  it.each([401, 409, 429, 500, 503])(
    'is a refusal by its status alone when a %i cannot be read',
    async (status) => {
      script = () => ({ status, raw: '<html>' });
      expect(await gateway.createPaymentIntent(send())).toMatchObject({
        kind: 'refused',
        refusal: { status, type: null },
      });
    },
  );

  it('is lost when a 200 holds something else than a PaymentIntent', async () => {
    script = () => ({ status: 200, body: { object: 'customer', id: 'cus_1' } });
    expect(await gateway.createPaymentIntent(send())).toMatchObject({
      kind: 'lost',
      reason: 'unreadable_reply',
    });
  });

  it('is lost when it does not come in time', async () => {
    const impatient = createStripeGateway({
      apiKey: 'sk_test_1',
      apiBase: 'http://127.0.0.1:1',
      timeoutMs: 200,
    });
    expect(await impatient.createPaymentIntent(send())).toMatchObject({ kind: 'lost' });
    impatient.close();
  });
});

describe('a look-up', () => {
  it.each([404, 500, 401])(
    'that is answered with a %i fails, and never means "absent"',
    async (status) => {
      script = () => ({ status, body: { error: { type: 'invalid_request_error' } } });
      await expect(gateway.retrievePaymentIntent('pi_1')).rejects.toMatchObject({
        name: 'LookupFailed',
        status,
      });
      await expect(
        gateway.listPaymentIntents({ customer: 'cus_1', createdGte: 0 }),
      ).rejects.toMatchObject({ name: 'LookupFailed' });
    },
  );

  it('fails when the answer is no list', async () => {
    script = () => ({ status: 200, body: { data: 'nothing here' } });
    await expect(
      gateway.listPaymentIntents({ customer: 'cus_1', createdGte: 0 }),
    ).rejects.toMatchObject({ name: 'LookupFailed' });
  });

  it('L10: reads every page of the list, and never asks Search', async () => {
    script = ({ path }) => ({
      status: 200,
      body: path.includes('starting_after=pi_1')
        ? { object: 'list', data: [{ ...INTENT, id: 'pi_2' }], has_more: false }
        : { object: 'list', data: [INTENT], has_more: true },
    });
    const found = await gateway.listPaymentIntents({ customer: 'cus_1', createdGte: 5 });
    expect(found.map((intent) => intent.id)).toEqual(['pi_1', 'pi_2']);
    expect(server.requests.every((request) => request.path.includes('created%5Bgte%5D=5'))).toBe(
      true,
    );
    expect(server.requests.some((request) => request.path.includes('/search'))).toBe(false);
  });

  it('gives up on a list that never ends', async () => {
    script = () => ({ status: 200, body: { object: 'list', data: [INTENT], has_more: true } });
    await expect(
      gateway.listPaymentIntents({ customer: 'cus_1', createdGte: 0 }),
    ).rejects.toMatchObject({ name: 'LookupFailed' });
    expect(server.requests).toHaveLength(50);
  });
});
