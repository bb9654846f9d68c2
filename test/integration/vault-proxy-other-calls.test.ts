import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { auditOf, ledgerOf } from '../support/vault-audit.ts';
import { startVaultProxy, type VaultProxy } from '../support/vault-proxy.ts';
import { rawReply, startRecorder } from '../support/vault-wire.ts';

const ENDPOINTS = [
  'POST /v1/payment_intents',
  'POST /v1/payment_intents/:id/confirm',
  'POST /v1/payment_intents/:id/capture',
  'POST /v1/payment_intents/:id/cancel',
  'POST /v1/payment_intents/:id',
  'GET /v1/payment_intents/:id',
  'POST /v1/charges',
  'POST /v1/customers',
  'DELETE /v1/customers/:id',
];

/** What Stripe says next: an intent (or charge) in this state, or an error. */
let says: { status: number; body: object } = { status: 200, body: {} };
let upstream: Awaited<ReturnType<typeof startRecorder>>;
let vault: VaultProxy;
let serial = 0;

beforeAll(async () => {
  upstream = await startRecorder(() => rawReply(says.status, says.body));
  vault = await startVaultProxy({ upstreamUrl: upstream.url });
});

afterEach(() => {
  upstream.requests.length = 0;
});

afterAll(async () => {
  await vault.close();
  await upstream.close();
});

/** A key with room for 1,000 and one intent of 600 in some state. */
async function withIntent(status: string) {
  const { key, keyId } = await vault.makeKey({ capMinor: 1_000, endpoints: ENDPOINTS });
  const id = `pi_other_${(serial += 1)}`;
  const intent = (state: string) => ({
    object: 'payment_intent',
    id,
    status: state,
    amount: 600,
    currency: 'usd',
    customer: 'cus_1',
  });
  const ask = (path: string, form: Record<string, string> | undefined, answer: typeof says) => {
    says = answer;
    return vault.ask({
      key,
      path,
      ...(form === undefined ? {} : { form, idempotencyKey: `other-${(serial += 1)}` }),
    });
  };
  const create = { amount: '600', currency: 'usd', customer: 'cus_1', capture_method: 'manual' };
  await ask('/v1/payment_intents', create, { status: 200, body: intent(status) });
  const ledger = () => ledgerOf(vault.db, keyId);
  return { key, keyId, intent, path: `/v1/payment_intents/${id}`, ask, ledger };
}

const refused = (code: string, more: object = {}) => ({
  status: 400,
  body: { error: { type: 'invalid_request_error', code, ...more } },
});

describe('a capture', () => {
  it('settles the reservation of its create, and takes no more than that', async () => {
    const { path, ask, intent, ledger } = await withIntent('requires_capture');
    expect(await ledger()).toMatchObject({
      usedMinor: 600,
      reservations: [{ state: 'held', reason: 'requires_capture' }],
    });
    const paid = { status: 200, body: intent('succeeded') };
    const more = await ask(`${path}/capture`, { amount_to_capture: '601' }, paid);
    expect([more.status, more.json.error.code]).toEqual([400, 'capture_above_reservation']);
    expect(upstream.requests).toHaveLength(1);
    await ask(`${path}/capture`, { amount_to_capture: '500' }, paid);
    expect(await ledger()).toMatchObject({ usedMinor: 600, reservations: [{ state: 'spent' }] });
  });

  it('gives nothing back when it is refused: the money is still authorised', async () => {
    const { path, ask, ledger } = await withIntent('requires_capture');
    await ask(`${path}/capture`, {}, refused('amount_too_large'));
    expect(await ledger()).toMatchObject({ usedMinor: 600, reservations: [{ state: 'held' }] });
  });
});

describe('a cancel', () => {
  it('gives the sum back when Stripe has cancelled the intent, and only then', async () => {
    const { path, ask, intent, ledger } = await withIntent('requires_confirmation');
    await ask(`${path}/cancel`, {}, refused('payment_intent_unexpected_state'));
    expect(await ledger()).toMatchObject({ usedMinor: 600, reservations: [{ state: 'held' }] });
    await ask(`${path}/cancel`, {}, { status: 200, body: intent('canceled') });
    expect(await ledger()).toMatchObject({ usedMinor: 0, reservations: [{ state: 'released' }] });
  });

  it('that comes too late settles what Stripe has taken', async () => {
    const { path, ask, intent, ledger } = await withIntent('requires_confirmation');
    const late = refused('payment_intent_unexpected_state', {
      payment_intent: intent('succeeded'),
    });
    await ask(`${path}/cancel`, {}, late);
    expect(await ledger()).toMatchObject({ usedMinor: 600, reservations: [{ state: 'spent' }] });
  });
});

describe('a confirm', () => {
  it('that Stripe refuses gives the sum back, and the next one takes it again', async () => {
    const { path, ask, intent, ledger } = await withIntent('requires_confirmation');
    await ask(`${path}/confirm`, {}, refused('resource_missing'));
    expect(await ledger()).toMatchObject({ usedMinor: 0, reservations: [{ state: 'released' }] });
    await ask(`${path}/confirm`, {}, { status: 200, body: intent('succeeded') });
    expect(await ledger()).toMatchObject({ usedMinor: 600, reservations: [{ state: 'spent' }] });
  });

  it('that is refused after one whose answer was lost gives nothing back', async () => {
    const { path, ask, ledger } = await withIntent('requires_confirmation');
    await ask(`${path}/confirm`, {}, { status: 500, body: {} });
    await ask(`${path}/confirm`, {}, refused('resource_missing'));
    expect(await ledger()).toMatchObject({ usedMinor: 600, reservations: [{ state: 'held' }] });
  });

  it('is refused when it names a sum of its own', async () => {
    const { path, ask } = await withIntent('requires_confirmation');
    const answer = await ask(
      `${path}/confirm`,
      { amount_to_confirm: '900' },
      { status: 200, body: {} },
    );
    expect(answer.json.error.code).toBe('amount_ambiguous');
    expect(upstream.requests).toHaveLength(1);
  });
});

describe('a read of an intent', () => {
  it('settles when it shows that the money was taken, and proves nothing else', async () => {
    const { path, ask, intent, ledger } = await withIntent('processing');
    await ask(path, undefined, { status: 200, body: intent('requires_payment_method') });
    await ask(path, undefined, { status: 404, body: {} });
    expect(await ledger()).toMatchObject({
      usedMinor: 600,
      reservations: [{ state: 'held', reason: 'processing' }],
    });
    await ask(path, undefined, { status: 200, body: intent('succeeded') });
    expect(await ledger()).toMatchObject({ usedMinor: 600, reservations: [{ state: 'spent' }] });
  });
});

describe('calls beside PaymentIntents', () => {
  it('a charge reserves and settles in one, and cannot leave its capture for later', async () => {
    const { ask, ledger } = await withIntent('canceled');
    const charge = {
      object: 'charge',
      id: `ch_other_${serial}`,
      status: 'succeeded',
      captured: true,
    };
    const body = { ...charge, amount: 700, currency: 'usd', customer: 'cus_1' };
    const form = { amount: '700', currency: 'USD', customer: 'cus_1' };
    await ask('/v1/charges', form, { status: 200, body });
    expect(await ledger()).toMatchObject({
      usedMinor: 700,
      reservations: [{ state: 'released' }, { state: 'spent', objectId: charge.id }],
    });
    const later = await ask('/v1/charges', { ...form, capture: 'false' }, { status: 200, body });
    expect(later.json.error.code).toBe('capture_not_supported');
    const over = await ask('/v1/charges', form, { status: 200, body });
    expect(over.json.error.code).toBe('spend_cap_exceeded');
  });

  it('an update may not change the sum, and changes of customers reserve nothing', async () => {
    const { key, keyId, path, ask, ledger } = await withIntent('requires_confirmation');
    const fine = { status: 200, body: { object: 'customer', id: 'cus_1' } };
    expect((await ask(path, { description: 'x' }, fine)).status).toBe(200);
    expect((await ask(path, { amount: '9000' }, fine)).json.error.code).toBe('amount_ambiguous');
    expect((await ask('/v1/customers', { name: 'x' }, fine)).status).toBe(200);
    const gone = await vault.ask({ key, method: 'DELETE', path: '/v1/customers/cus_1' });
    expect(gone.status).toBe(200);
    expect(upstream.requests.at(-1)).toMatchObject({
      method: 'DELETE',
      url: '/v1/customers/cus_1',
    });
    expect((await ledger()).usedMinor).toBe(600);
    const audit = await auditOf(vault.db, keyId);
    expect(audit.map(({ decision, effect }) => `${decision} ${effect}`)).toEqual([
      'forward held',
      'forward none',
      'amount_ambiguous null',
      'forward none',
      'forward none',
    ]);
  });
});
