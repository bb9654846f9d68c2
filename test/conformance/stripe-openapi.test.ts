import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parseBillingPeriod } from '../../src/domain/billing-period.ts';
import { parseCustomerId } from '../../src/domain/customer-id.ts';
import { idempotencyKey } from '../../src/domain/idempotency-key.ts';
import type { ChargeOperation } from '../../src/domain/idempotency-key.ts';
import { DEFAULT_NAMESPACE } from '../../src/domain/namespace.ts';
import { confirmRequestBody, createRequestBody } from '../../src/payments/frozen-request.ts';
import type { FrozenSend, SendReply } from '../../src/payments/gateway.ts';
import { refundRequestBody } from '../../src/payments/refund-gateway.ts';
import { createStripeGateway } from '../../src/payments/stripe-gateway.ts';
import { locateStripeMock, startStripeMock } from './stripe-mock.ts';
import type { StripeMock } from './stripe-mock.ts';

let mock: StripeMock;
let gateway: ReturnType<typeof createStripeGateway>;

beforeAll(async () => {
  mock = await startStripeMock(await locateStripeMock(process.env));
  gateway = createStripeGateway({ apiKey: 'sk_test_123', apiBase: mock.url, timeoutMs: 10_000 });
});

afterAll(async () => {
  gateway.close();
  await mock.stop();
});

function slot() {
  const period = parseBillingPeriod('2026-11');
  const customer = parseCustomerId('cust_0001');
  if (!period.ok || !customer.ok) throw new Error('the slot of this test is no slot');
  return {
    namespace: DEFAULT_NAMESPACE,
    period: period.period,
    customerId: customer.customerId,
  };
}

function key(operation: ChargeOperation) {
  return idempotencyKey({ account: 'acct_1', mode: 'test', ...slot(), operation, generation: 1 });
}

function send(operation: ChargeOperation, body: string): FrozenSend {
  return {
    idempotencyKey: key(operation),
    body,
    apiVersion: gateway.apiVersion,
    attemptId: 'att_1',
    onResend: () => Promise.reject(new Error('nothing is sent twice here')),
  };
}

function createBody(description: string | null): string {
  const item = {
    ...slot(),
    stripeCustomerId: 'cus_Ex0001',
    paymentMethodId: 'pm_card_visa',
    amountMinor: 1799,
    currency: 'usd',
    description,
  };
  return createRequestBody(item, key('create'));
}

const SENDS: Readonly<Record<ChargeOperation, (suffix: string) => Promise<SendReply>>> = {
  create: (suffix) =>
    gateway.createPaymentIntent(send('create', createBody('Plan "Müller" & Söhne') + suffix)),
  confirm: (suffix) =>
    gateway.confirmPaymentIntent(
      'pi_123',
      send('confirm', confirmRequestBody('pm_card_visa') + suffix),
    ),
};

const OPERATIONS: readonly ChargeOperation[] = ['create', 'confirm'];

describe("Stripe's OpenAPI", () => {
  test.each(OPERATIONS)('takes our %s, and we can read its answer', async (operation) => {
    expect(await SENDS[operation]('')).toMatchObject({
      kind: 'intent',
      intent: { id: expect.stringMatching(/^pi_/) },
      answer: { httpStatus: 200 },
    });
  });

  test('takes our create without a description', async () => {
    expect(await gateway.createPaymentIntent(send('create', createBody(null)))).toMatchObject({
      kind: 'intent',
    });
  });

  test('takes our retrieve, list and account', async () => {
    expect(await gateway.retrievePaymentIntent('pi_123')).toMatchObject({ id: 'pi_123' });
    expect(
      await gateway.listPaymentIntents({ customer: 'cus_Ex0001', createdGte: 1_795_000_000 }),
    ).toEqual([expect.objectContaining({ id: expect.stringMatching(/^pi_/) })]);
    expect(await gateway.account()).toMatchObject({ id: expect.stringMatching(/^acct_/) });
  });

  test('takes our look-ups of charges and events', async () => {
    const aCharge = expect.objectContaining({ id: expect.stringMatching(/^ch_/) });
    expect(await gateway.retrieveCharge('ch_123')).toEqual(aCharge);
    expect(await gateway.listChargesOf('pi_123')).toEqual([aCharge]);
    const events = await gateway.listEvents({
      types: ['payment_intent.created', 'payment_intent.succeeded'],
      createdGte: 1_795_000_000,
      createdLte: 1_795_003_600,
    });
    expect(events).toEqual([expect.objectContaining({ id: expect.stringMatching(/^evt_/) })]);
  });

  test('takes our refund and its look-ups, and we can read the answers', async () => {
    const { refunds } = gateway;
    const body = refundRequestBody({
      chargeId: 'ch_123',
      amountMinor: 1799,
      key: key('confirm'),
      planId: 7,
    });
    expect(await refunds.createRefund(send('confirm', body))).toMatchObject({
      kind: 'refund',
      refund: { id: expect.stringMatching(/^re_/) },
    });
    expect(await refunds.listRefunds('ch_123')).toHaveLength(1);
    expect(await refunds.readCharge('ch_123')).toMatchObject({ id: 'ch_123' });
    const pages: unknown[] = [];
    const range = { createdGte: 1_795_000_000, createdLt: 1_795_003_600 };
    for await (const page of refunds.listCharges(range)) pages.push(...page);
    expect(pages).toHaveLength(1);
  });

  test('is asked about every request our gateway can make', () => {
    const callsOf = (one: object): string[] =>
      Object.entries(one)
        .filter(([, value]) => typeof value === 'function')
        .map(([name]) => name)
        .sort();
    expect(callsOf(gateway)).toEqual([
      'account',
      'close',
      'confirmPaymentIntent',
      'createPaymentIntent',
      'listChargesOf',
      'listEvents',
      'listPaymentIntents',
      'retrieveCharge',
      'retrievePaymentIntent',
    ]);
    expect(callsOf(gateway.refunds)).toEqual([
      'createRefund',
      'listCharges',
      'listRefunds',
      'readCharge',
    ]);
  });
});

// Without these, a stripe-mock that took everything would look like a pass.
describe("a planted mistake is refused by Stripe's OpenAPI", () => {
  test.each(
    OPERATIONS.flatMap((operation) => [
      [operation, 'a misspelt parameter', '&off_sesion=true'] as const,
      [operation, 'a value outside its enumeration', '&capture_method=sometimes'] as const,
      [operation, 'a list where a text belongs', '&payment_method[]=pm_1'] as const,
    ]),
  )('in %s: %s', async (...[operation, , suffix]) => {
    expect(await SENDS[operation](suffix)).toMatchObject({
      kind: 'refused',
      refusal: { status: 400, type: 'invalid_request_error' },
    });
  });

  test('in create: no amount', async () => {
    const body = new URLSearchParams(createBody(null));
    body.delete('amount');
    expect(await gateway.createPaymentIntent(send('create', body.toString()))).toMatchObject({
      kind: 'refused',
      refusal: { status: 400 },
    });
  });

  test('in list: a misspelt filter', async () => {
    const response = await fetch(`${mock.url}/v1/payment_intents?custmer=cus_Ex0001&limit=100`, {
      headers: { authorization: 'Bearer sk_test_123' },
    });
    expect(response.status).toBe(400);
  });

  test('in the path: an endpoint that does not exist', async () => {
    const response = await fetch(`${mock.url}/v1/payment_intent`, {
      headers: { authorization: 'Bearer sk_test_123' },
    });
    expect(response.status).toBe(404);
  });
});
