import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { FaultKind, FaultRule } from '../../src/simulator/options.ts';
import type { Simulator } from '../../src/simulator/index.ts';
import { auditOf, ledgerOf } from '../support/vault-audit.ts';
import {
  payerOf,
  startStripe,
  startVaultProxy,
  type Payer,
  type VaultProxy,
} from '../support/vault-proxy.ts';

let stripe: Simulator;
let vault: VaultProxy;
let seen = 0;
let customer = '';
let payer: Payer;

/** Requests at Stripe since the test began. */
const atStripe = () => stripe.requests(seen);
/** What Stripe took from this test's customer. */
const takenMinor = () =>
  stripe
    .ledger({ customer })
    .entries.filter(({ status }) => status === 'succeeded')
    .reduce((sum, { amount }) => sum + amount, 0);

beforeAll(async () => {
  stripe = await startStripe();
  vault = await startVaultProxy({ upstreamUrl: stripe.url });
});

afterAll(async () => {
  await vault.close();
  await stripe.close();
});

beforeEach(() => {
  stripe.setFaults(undefined);
  vault.events.length = 0;
  seen = stripe.requests().at(-1)?.seq ?? 0;
  customer = `cus_${randomUUID().replaceAll('-', '')}`;
  payer = payerOf(vault, customer);
});

const fault = (kind: FaultKind, endpoint: string, more: Partial<FaultRule> = {}) =>
  stripe.setFaults({ rules: [{ id: 'f', kind, endpoint, limit: 1, ...more }] });

describe('an answer that proves nothing', () => {
  it.each([
    'resetBefore',
    'actThenDrop',
    'fail500',
    'actThen500',
    'status409',
    'status429',
    'status503',
    'truncate',
    'wrongContentType',
  ] as const)(
    'O3, P3: holds the sum after %s, and Stripe got exactly one request',
    async (kind) => {
      const { key, keyId } = await vault.makeKey();
      fault(kind, 'payment_intents.create');
      const answer = await payer.pay(key, 900);
      expect(atStripe()).toHaveLength(1);
      const held = await ledgerOf(vault.db, keyId);
      expect(held).toMatchObject({ usedMinor: 900, reservations: [{ state: 'held' }] });
      const [row] = await auditOf(vault.db, keyId);
      expect(row).toMatchObject({ decision: 'forward', effect: 'held' });
      const lost = ['resetBefore', 'actThenDrop', 'truncate'].includes(kind);
      expect(row?.status).toBe(lost ? null : answer.status);
      expect(answer.json?.error?.code ?? null).toBe(
        lost ? 'upstream_failed' : (answer.json?.error?.code ?? null),
      );
      expect(lost && answer.headers['stripe-should-retry']).toBe(lost && 'false');
    },
  );

  it('V3: holds the whole sum after a 200 that is cut off, and settles when the same key brings the rest', async () => {
    const { key, keyId } = await vault.makeKey();
    fault('truncate', 'payment_intents.create');
    const again = { idempotencyKey: 'cut off' };
    const cut = await payer.pay(key, 900, again);
    expect([cut.status, cut.json.error.code]).toEqual([502, 'upstream_failed']);
    expect(await ledgerOf(vault.db, keyId)).toMatchObject({
      usedMinor: 900,
      reservations: [{ state: 'held', reason: 'truncated_reply', objectId: null }],
    });
    const whole = await payer.pay(key, 900, again);
    expect(whole.headers['idempotent-replayed']).toBe('true');
    expect(await ledgerOf(vault.db, keyId)).toMatchObject({
      usedMinor: 900,
      reservations: [{ state: 'spent', objectId: whole.json.id }],
    });
  });

  it('holds after a time-out and says that the outcome is unknown', async () => {
    const { key, keyId } = await vault.makeKey();
    const impatient = await vault.before(stripe.url, 50);
    fault('slow', 'payment_intents.create', { delayMs: 300 });
    const answer = await payerOf(impatient, customer).pay(key, 900);
    expect([answer.status, answer.json.error.code]).toEqual([504, 'upstream_timeout']);
    expect(answer.headers['stripe-should-retry']).toBe('false');
    expect(await ledgerOf(vault.db, keyId)).toMatchObject({
      usedMinor: 900,
      reservations: [{ state: 'held', reason: 'upstream_timeout' }],
    });
    await impatient.close();
    await expect.poll(() => atStripe()).toHaveLength(1);
  });

  it('holds what is processing', async () => {
    const { key, keyId } = await vault.makeKey();
    await payer.pay(key, 500, { card: 'pm_usBankAccount_success' });
    expect(await ledgerOf(vault.db, keyId)).toMatchObject({
      usedMinor: 500,
      reservations: [{ state: 'held', reason: 'processing' }],
    });
  });

  it('holds what waits for the customer, and gives back what was declined for want of them', async () => {
    const { key, keyId } = await vault.makeKey();
    const made = await payer.create(key, 500);
    const absent = await payer.confirm(key, made.json.id, {
      card: 'pm_card_authenticationRequired',
    });
    expect([absent.status, absent.json.error.code]).toEqual([402, 'authentication_required']);
    expect(await ledgerOf(vault.db, keyId)).toMatchObject({
      usedMinor: 0,
      reservations: [{ state: 'released', reason: 'authentication_required' }],
    });
    const form = { payment_method: 'pm_card_authenticationRequired' };
    const present = await payer.confirm(key, made.json.id, { form });
    expect(present.json.status).toBe('requires_action');
    expect(await ledgerOf(vault.db, keyId)).toMatchObject({
      usedMinor: 500,
      reservations: [{ state: 'held', reason: 'requires_action' }],
    });
  });

  it('V2: waits for Stripe and settles when the client has gone in mid-call', async () => {
    const { key, keyId } = await vault.makeKey();
    fault('slow', 'payment_intents.create', { delayMs: 250 });
    const leaving = new AbortController();
    const asked = payer.pay(key, 900, { signal: leaving.signal });
    await expect.poll(() => vault.events.some(({ kind }) => kind === 'forwarded')).toBe(true);
    leaving.abort();
    await expect(asked).rejects.toThrow('aborted');
    expect(await ledgerOf(vault.db, keyId)).toMatchObject({
      usedMinor: 900,
      reservations: [{ state: 'held', reason: 'in_flight' }],
    });
    await expect
      .poll(async () => (await ledgerOf(vault.db, keyId)).reservations[0]?.state)
      .toBe('spent');
    expect(atStripe()).toHaveLength(1);
  });

  it('sends nothing any more when it was frozen between the reservation and the send', async () => {
    const { key, keyId } = await vault.makeKey();
    let frozen = true;
    let clock = 0;
    const awake = await startVaultProxy({
      upstreamUrl: stripe.url,
      databaseUrl: vault.databaseUrl,
      now: () => (clock += frozen ? 60_000 : 1),
    });
    const late = payerOf(awake, customer);
    const idempotencyKey = randomUUID();
    expect((await late.pay(key, 700, { idempotencyKey })).status).toBe(503);
    expect(atStripe()).toHaveLength(0);
    expect((await ledgerOf(vault.db, keyId)).usedMinor).toBe(700);
    frozen = false;
    expect((await late.pay(key, 700, { idempotencyKey })).json.status).toBe('succeeded');
    expect(await ledgerOf(vault.db, keyId)).toMatchObject({
      usedMinor: 700,
      reservations: [{ state: 'spent' }],
    });
    await awake.close();
  });

  it('takes the confirm of an intent whose create lost its answer, after a look at Stripe', async () => {
    const { key, keyId } = await vault.makeKey();
    fault('actThenDrop', 'payment_intents.create');
    expect((await payer.create(key, 600)).status).toBe(502);
    const [entry] = stripe.ledger({ customer }).entries;
    const id = entry?.paymentIntent ?? 'none';
    expect((await payer.confirm(key, id)).json.status).toBe('succeeded');
    expect(await ledgerOf(vault.db, keyId)).toMatchObject({
      usedMinor: 600,
      reservations: [{ state: 'spent', objectId: id }],
    });
  });

  it('asks for another try of the confirm when the look at Stripe fails, instead of refusing it for good', async () => {
    const { key, keyId } = await vault.makeKey();
    fault('actThenDrop', 'payment_intents.create');
    await payer.create(key, 600);
    const id = stripe.ledger({ customer }).entries[0]?.paymentIntent ?? 'none';
    fault('status503', 'payment_intents.retrieve');
    expect((await payer.confirm(key, id)).status).toBe(503);
    expect(takenMinor()).toBe(0);
    expect((await payer.confirm(key, id)).json.status).toBe('succeeded');
    expect((await ledgerOf(vault.db, keyId)).usedMinor).toBe(600);
  });

  it('refuses the confirm of an intent that this key did not create', async () => {
    const { key: other } = await vault.makeKey();
    const { key, keyId } = await vault.makeKey();
    const made = await payer.create(other, 600);
    const answer = await payer.confirm(key, made.json.id);
    expect([answer.status, answer.json.error.code]).toEqual([403, 'unknown_payment_intent']);
    expect((await payer.confirm(key, 'pi_unknown')).json.error.code).toBe('unknown_payment_intent');
    expect((await ledgerOf(vault.db, keyId)).usedMinor).toBe(0);
    expect(takenMinor()).toBe(0);
  });
});
