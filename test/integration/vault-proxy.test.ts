import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Simulator } from '../../src/simulator/index.ts';
import { auditOf, ledgerOf, vaultTables } from '../support/vault-audit.ts';
import {
  payerOf,
  startStripe,
  startVaultProxy,
  STRIPE_SECRET,
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
  vault.events.length = 0;
  seen = stripe.requests().at(-1)?.seq ?? 0;
  customer = `cus_${randomUUID().replaceAll('-', '')}`;
  payer = payerOf(vault, customer);
});

describe('the cap', () => {
  it('P1: lets exactly ten of twenty parallel payments of 10 through against a cap of 100', async () => {
    const { key, keyId } = await vault.makeKey({ capMinor: 1_000 });
    const answers = await Promise.all(Array.from({ length: 20 }, () => payer.pay(key, 100)));
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(10);
    expect(answers.filter(({ status }) => status === 402)).toHaveLength(10);
    expect(atStripe()).toHaveLength(10);
    expect(takenMinor()).toBe(1_000);
    const { usedMinor, reservations } = await ledgerOf(vault.db, keyId);
    expect(usedMinor).toBe(1_000);
    expect(reservations.map(({ state }) => state)).toEqual(Array(10).fill('spent'));
  });

  it('P1, V6: lets exactly ten through when two vaults share the cap', async () => {
    const { key, keyId } = await vault.makeKey({ capMinor: 1_000 });
    const twin = await vault.before(stripe.url);
    const twins = [payer, payerOf(twin, customer)];
    const answers = await Promise.all(
      Array.from({ length: 10 }, () => twins.map((one) => one.pay(key, 100))).flat(),
    );
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(10);
    expect(takenMinor()).toBe(1_000);
    expect((await ledgerOf(vault.db, keyId)).usedMinor).toBe(1_000);
    await twin.close();
  });

  it('V9, V8: says what is used, asked and left, and shows the key in no answer, event or row', async () => {
    const { key, keyId } = await vault.makeKey({ capMinor: 1_000, expectedMinor: 900 });
    await payer.pay(key, 950);
    const answer = await payer.pay(key, 100);
    expect(answer.status).toBe(402);
    expect(answer.headers['stripe-should-retry']).toBe('false');
    expect(answer.json.error).toMatchObject({ type: 'vault_error', code: 'spend_cap_exceeded' });
    expect(answer.json.error.message).toMatch(
      /1000 usd.*950 are reserved.*100 were asked.*50 remain.*raise it/,
    );
    expect(vault.events.map(({ kind }) => kind)).toEqual([
      'forwarded',
      'cap_crossed',
      'cap_crossed',
      'answered',
      'refused',
    ]);
    expect(vault.events.at(-1)).toMatchObject({
      code: 'spend_cap_exceeded',
      cap: { keyId, usedMinor: 950, capMinor: 1_000, amountMinor: 100 },
    });
    const audit = await auditOf(vault.db, keyId);
    expect(audit.map(({ decision }) => decision)).toEqual(['forward', 'spend_cap_exceeded']);
    const said = JSON.stringify([
      answer.json,
      answer.headers,
      vault.events,
      await vaultTables(vault.db),
    ]);
    const secretPart = key.split('_').at(-1) ?? 'none';
    expect(said).not.toContain(secretPart);
    expect(said).not.toContain(STRIPE_SECRET);
  });

  it('P4: reserves once when the same key comes three times, and hands on what Stripe saved', async () => {
    const { key, keyId } = await vault.makeKey();
    const same = { idempotencyKey: 'once', headers: { 'X-Attempt-Id': 'attempt-1' } };
    const first = await payer.pay(key, 700, same);
    const second = await payer.pay(key, 700, same);
    const third = await payer.pay(key, 700, same);
    expect([first.status, second.status, third.status]).toEqual([200, 200, 200]);
    expect(second.json.id).toBe(first.json.id);
    expect(third.headers['idempotent-replayed']).toBe('true');
    expect(await ledgerOf(vault.db, keyId)).toEqual({
      usedMinor: 700,
      reservations: [
        { state: 'spent', reason: 'succeeded', amountMinor: 700, objectId: first.json.id },
      ],
    });
    const audit = await auditOf(vault.db, keyId);
    expect(audit.map(({ replayed }) => replayed)).toEqual([false, true, true]);
    expect(audit[0]).toMatchObject({
      idempotencyKey: 'once',
      attemptId: 'attempt-1',
      amountMinor: 700,
      status: 200,
      effect: 'spent',
      stripeRequestId: first.headers['request-id'],
    });
  });

  it('P4: reserves once when the same key comes three times at once', async () => {
    const { key, keyId } = await vault.makeKey();
    await Promise.all([1, 2, 3].map(() => payer.pay(key, 700, { idempotencyKey: 'at once' })));
    expect((await ledgerOf(vault.db, keyId)).usedMinor).toBe(700);
    expect(takenMinor()).toBe(700);
  });

  it('refuses the same key with another amount, body or path before Stripe sees it', async () => {
    const { key } = await vault.makeKey();
    await payer.pay(key, 700, { idempotencyKey: 'bound' });
    const before = atStripe().length;
    const answer = await payer.pay(key, 701, { idempotencyKey: 'bound' });
    expect([answer.status, answer.json.error.code]).toEqual([409, 'idempotency_key_reused']);
    const elsewhere = await vault.ask({
      key,
      path: '/v1/refunds',
      idempotencyKey: 'bound',
      form: { charge: 'ch_1' },
    });
    expect(elsewhere.json.error.code).toBe('idempotency_key_reused');
    expect(atStripe()).toHaveLength(before);
  });

  it('reserves at the create and settles the same reservation at its confirm', async () => {
    const { key, keyId } = await vault.makeKey({ capMinor: 1_000 });
    const made = await payer.create(key, 600);
    expect(await ledgerOf(vault.db, keyId)).toMatchObject({
      usedMinor: 600,
      reservations: [{ state: 'held', reason: 'requires_confirmation', objectId: made.json.id }],
    });
    const paid = await payer.confirm(key, made.json.id);
    expect(paid.json.status).toBe('succeeded');
    expect(await ledgerOf(vault.db, keyId)).toMatchObject({
      usedMinor: 600,
      reservations: [{ state: 'spent' }],
    });
    expect((await payer.create(key, 600)).status).toBe(402);
  });

  it('P3: gives a decline back, and reserves again for the confirm of the next generation', async () => {
    const { key, keyId } = await vault.makeKey({ capMinor: 1_000 });
    const made = await payer.create(key, 600);
    const declined = await payer.confirm(key, made.json.id, { card: 'pm_card_chargeDeclined' });
    expect([declined.status, declined.json.error.type]).toEqual([402, 'card_error']);
    expect(await ledgerOf(vault.db, keyId)).toMatchObject({
      usedMinor: 0,
      reservations: [{ state: 'released' }],
    });
    const other = await payer.pay(key, 500);
    expect(other.status).toBe(200);
    const refused = await payer.confirm(key, made.json.id);
    expect(refused.json.error.code).toBe('spend_cap_exceeded');
    expect(await ledgerOf(vault.db, keyId)).toMatchObject({ usedMinor: 500 });
    expect(takenMinor()).toBe(500);
  });

  it('settles the next generation after a decline, and lets its old answer come again without harm', async () => {
    const { key, keyId } = await vault.makeKey({ capMinor: 1_000 });
    const made = await payer.create(key, 600);
    const first = { idempotencyKey: 'generation 1' };
    await payer.confirm(key, made.json.id, { card: 'pm_card_chargeDeclined', ...first });
    expect((await payer.confirm(key, made.json.id)).json.status).toBe('succeeded');
    expect(
      (await payer.confirm(key, made.json.id, { card: 'pm_card_chargeDeclined', ...first })).status,
    ).toBe(402);
    expect(await ledgerOf(vault.db, keyId)).toMatchObject({
      usedMinor: 600,
      reservations: [{ state: 'spent' }],
    });
  });

  it('gives nothing back for a refund', async () => {
    const { key, keyId } = await vault.makeKey({ capMinor: 1_000 });
    const paid = await payer.pay(key, 800);
    const refund = await vault.ask({
      key,
      path: '/v1/refunds',
      idempotencyKey: randomUUID(),
      form: { payment_intent: paid.json.id, amount: '800' },
    });
    expect(refund.status).toBe(200);
    expect((await ledgerOf(vault.db, keyId)).usedMinor).toBe(800);
    expect((await payer.pay(key, 300)).status).toBe(402);
  });

  it('refuses a currency without a cap', async () => {
    const { key } = await vault.makeKey();
    const answer = await vault.ask({
      key,
      idempotencyKey: 'eur',
      form: { ...payer.form(50), currency: 'EUR' },
    });
    expect([answer.status, answer.json.error.code]).toEqual([400, 'currency_not_capped']);
    expect(atStripe()).toHaveLength(0);
  });
});
