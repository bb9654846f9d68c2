import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { FaultKind, FaultRule } from '../../src/simulator/options.ts';
import type { Simulator } from '../../src/simulator/index.ts';
import { testPostgres } from '../support/postgres.ts';
import { auditOf, ledgerOf } from '../support/vault-audit.ts';
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

describe('who may send what', () => {
  it('V10: denies what the key may not call, and Stripe never hears of it', async () => {
    const { key, keyId } = await vault.makeKey();
    for (const [method, path] of [
      ['POST', '/v1/charges'],
      ['POST', '/v1/payment_intents/pi_1/capture'],
      ['POST', '/v1/payment_intents/pi_1/CONFIRM'],
      ['POST', '/V1/payment_intents'],
      ['GET', '/v1/balance'],
      ['DELETE', '/v1/customers/cus_1'],
      ['PUT', '/v1/payment_intents'],
    ] as const) {
      const form = method === 'POST' ? payer.form(50) : '';
      const answer = await vault.ask({ key, method, path, form, idempotencyKey: randomUUID() });
      expect(answer.status).toBe(path.startsWith('/v1/') ? 403 : 400);
      expect(answer.headers['stripe-should-retry']).toBe('false');
    }
    expect(atStripe()).toHaveLength(0);
    expect(vault.events.filter(({ kind }) => kind !== 'refused')).toEqual([]);
    const audit = await auditOf(vault.db, keyId);
    expect(audit.map(({ decision }) => decision)).toEqual(Array(6).fill('endpoint_not_allowed'));
  });

  it('refuses a POST without a key of its own, and writes that down', async () => {
    const { key, keyId } = await vault.makeKey();
    const answer = await vault.ask({ key, form: payer.form(50) });
    expect([answer.status, answer.json.error.code]).toEqual([400, 'idempotency_key_missing']);
    expect(atStripe()).toHaveLength(0);
    expect(await auditOf(vault.db, keyId)).toMatchObject([{ decision: 'idempotency_key_missing' }]);
    expect(vault.events).toMatchObject([
      { kind: 'refused', code: 'idempotency_key_missing', request: { keyId } },
    ]);
  });

  it('refuses no key, foreign keys, wrong secrets, and keys that are revoked or expired', async () => {
    const { key, keyId } = await vault.makeKey();
    const revoked = await vault.makeKey();
    await vault.db
      .updateTable('vault_keys')
      .set({ revoked_at: new Date() })
      .where('key_id', '=', revoked.keyId)
      .execute();
    const expired = await vault.makeKey({ expiresAt: new Date(Date.now() - 1_000) });
    const wrong = key.replace(/.$/, (last) => (last === '0' ? '1' : '0'));
    for (const [credential, code] of [
      ['', 'vault_key_missing'],
      ['sk_test_1', 'vault_key_unknown'],
      [STRIPE_SECRET, 'vault_key_unknown'],
      [wrong, 'vault_key_unknown'],
      [key.toUpperCase(), 'vault_key_unknown'],
      [revoked.key, 'vault_key_revoked'],
      [expired.key, 'vault_key_expired'],
    ] as const) {
      const answer = await payer.pay(credential, 50);
      expect([answer.status, answer.json.error.code]).toEqual([401, code]);
      expect(answer.body.toString()).not.toContain(key.slice(-64, -1));
    }
    expect(atStripe()).toHaveLength(0);
    expect((await payer.pay(key, 50)).status).toBe(200);
    expect((await ledgerOf(vault.db, keyId)).usedMinor).toBe(50);
  });

  it('V7: takes a revocation at the next request', async () => {
    const { key, keyId } = await vault.makeKey();
    expect((await payer.pay(key, 50)).status).toBe(200);
    await vault.db
      .updateTable('vault_keys')
      .set({ revoked_at: new Date() })
      .where('key_id', '=', keyId)
      .execute();
    expect((await payer.pay(key, 50)).json.error.code).toBe('vault_key_revoked');
  });

  it('does not mix live and test keys', async () => {
    const live = await vault.makeKey({ liveMode: true });
    const answer = await payer.pay(live.key, 50);
    expect([answer.status, answer.json.error.code]).toEqual([401, 'vault_key_of_another_account']);
    const turned = live.key.replace('vk_live_', 'vk_test_');
    expect((await payer.pay(turned, 50)).json.error.code).toBe('vault_key_unknown');
    expect(atStripe()).toHaveLength(0);
  });

  it('keeps a key to its billing period', async () => {
    const { key } = await vault.makeKey({ period: '2026-11' });
    const form = { ...payer.form(50), 'metadata[chargeonce_period]': '2026-12' };
    const answer = await vault.ask({ key, idempotencyKey: randomUUID(), form });
    expect([answer.status, answer.json.error.code]).toEqual([403, 'period_mismatch']);
  });
});

describe('the database', () => {
  it('V5: refuses with 503 while it is away, forwards nothing, and goes on when it is back', async () => {
    const { key, keyId } = await vault.makeKey();
    expect((await payer.pay(key, 50)).status).toBe(200);
    seen = stripe.requests().at(-1)?.seq ?? 0;
    const postgres = await testPostgres();
    await postgres.immediateStop();
    const known = await payer.pay(key, 50);
    const unknown = await payer.pay(`vk_test_${'0'.repeat(16)}_${'0'.repeat(64)}`, 50);
    const denied = await vault.ask({ key, path: '/v1/balance' });
    await postgres.start();
    for (const answer of [known, unknown]) {
      expect([answer.status, answer.json.error.code]).toEqual([503, 'vault_unavailable']);
      expect(answer.headers).toMatchObject({ 'stripe-should-retry': 'true', 'retry-after': '1' });
    }
    expect(denied.json.error.code).toBe('endpoint_not_allowed');
    expect(atStripe()).toHaveLength(0);
    await expect.poll(async () => (await payer.pay(key, 50)).status).toBe(200);
    // A crash may have taken the answer to the first one along: then its sum is held, and a look finds it.
    expect((await ledgerOf(vault.db, keyId)).usedMinor).toBe(100);
    await vault.sweep();
    expect(await ledgerOf(vault.db, keyId)).toMatchObject({
      usedMinor: 100,
      reservations: [{ state: 'spent' }, { state: 'spent' }],
    });
  });

  it("gives the client Stripe's answer when it goes away in mid-call, and writes it down when it is back", async () => {
    const { key, keyId } = await vault.makeKey();
    fault('slow', 'payment_intents.create', { delayMs: 400 });
    const asked = payer.pay(key, 900);
    await expect.poll(() => vault.events.some(({ kind }) => kind === 'forwarded')).toBe(true);
    const postgres = await testPostgres();
    await postgres.immediateStop();
    const answer = await asked;
    await postgres.start();
    expect(answer.json.status).toBe('succeeded');
    expect(vault.events.find(({ kind }) => kind === 'answered')).toMatchObject({ effect: null });
    await expect
      .poll(async () => (await ledgerOf(vault.db, keyId).catch(() => null))?.reservations[0]?.state)
      .toBe('spent');
    expect(atStripe()).toHaveLength(1);
  });
});
