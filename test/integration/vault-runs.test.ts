import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Secret } from '../../src/secret.ts';
import { deriveRunKey } from '../../src/vault-key.ts';
import { startVault, VaultRefusesToStart, type VaultOptions } from '../../src/vault.ts';
import { startEngine, TEST_KEY, type Engine } from '../support/engine.ts';
import { runRef } from '../support/names.ts';
import {
  ADMIN_TOKEN,
  createForm,
  RUN_TOKEN,
  startTestVault,
  type TestVault,
} from '../support/vault.ts';

const RUN = runRef();
const RUN_PATH = `/vault/runs/${RUN.namespace}/${RUN.period}`;

let engine: Engine;
let vault: TestVault;

beforeAll(async () => {
  engine = await startEngine();
  vault = await startTestVault({
    databaseUrl: engine.databaseUrl,
    stripeUrl: engine.simulator.url,
  });
});

afterAll(async () => {
  await vault.vault.shutdown();
  await engine.close();
});

describe('the key of a run', () => {
  const open = () => vault.admin('PUT', RUN_PATH, { token: RUN_TOKEN });
  const { keyId, key } = deriveRunKey(RUN_TOKEN, 'test', RUN);
  const send = (customer: string, amount = 1_500) =>
    vault.post(
      '/v1/payment_intents',
      {
        ...createForm(amount, `cus_${customer}`),
        'metadata[chargeonce_namespace]': RUN.namespace,
        'metadata[chargeonce_period]': RUN.period,
        'metadata[chargeonce_customer]': customer,
      },
      { key },
    );

  beforeAll(async () => {
    await engine.plan(
      [
        { id: 'usd1', amountMinor: 1_500 },
        { id: 'usd2', amountMinor: 1_505 },
        { id: 'eur1', amountMinor: 700, currency: 'eur' },
      ],
      RUN,
    );
  });

  it('does not exist before a worker asks for it', async () => {
    expect((await send('usd1')).body.error.code).toBe('vault_key_unknown');
  });

  it('is opened once by twenty at once, its caps 1.10 of the frozen plan, and nobody chooses them', async () => {
    const answers = await Promise.all(Array.from({ length: 20 }, open));
    for (const answer of answers)
      expect(answer).toMatchObject({ status: 200, body: answers[0]?.body });
    expect(answers[0]?.body).toMatchObject({
      id: keyId,
      open_until: null,
      caps: [
        { currency: 'eur', cap: 770, expected: 700, reserved: 0, spent: 0 },
        { currency: 'usd', cap: 3_306, expected: 3_005, reserved: 0, spent: 0 },
      ],
    });
    expect(answers[0]?.text).not.toContain(key.slice(-64));
    const chosen = await vault.admin('PUT', RUN_PATH, { token: RUN_TOKEN, body: { cap: 1e9 } });
    expect(chosen.body.caps[1].cap).toBe(3_306);
    expect((await send('usd1')).status).toBe(200);
  });

  it('keeps its counts when it is opened again, and is closed without closing its reads', async () => {
    expect((await open()).body.caps[1]).toMatchObject({ reserved: 1_500 });
    const close = () => vault.admin('POST', `${RUN_PATH}/close`, { token: RUN_TOKEN });
    expect((await close()).body).toEqual({ closed: true });
    expect((await close()).body).toEqual({ closed: false });
    const refused = await send('usd2', 1_505);
    expect([refused.status, refused.body.error.code]).toEqual([403, 'vault_key_closed']);
    const read = await fetch(new URL('/v1/payment_intents/pi_unknown', vault.vault.proxyUrl), {
      headers: { authorization: `Bearer ${key}` },
    });
    // Stripe's own answer, so the read went through.
    expect(read.status).toBe(404);
    expect(await read.json()).toMatchObject({ error: { type: 'invalid_request_error' } });
  });

  it('is open for minutes after its run is over, and without an end before', async () => {
    expect((await open()).body.open_until).toBeNull();
    await sql`UPDATE billing_runs SET state = 'completed', completed_at = now()
      WHERE namespace = ${RUN.namespace} AND period = ${RUN.period}`.execute(engine.db);
    const { body } = await open();
    const minutes = (Date.parse(body.open_until) - Date.now()) / 60_000;
    expect(minutes).toBeGreaterThan(13);
    expect(minutes).toBeLessThan(16);
    expect((await send('usd2', 1_505)).status).toBe(200);
  });

  it('keeps its counts and gets another secret when the run token is rotated', async () => {
    const other = `vrt_${'d'.repeat(64)}`;
    const rotated = await startTestVault({
      databaseUrl: engine.databaseUrl,
      stripeUrl: engine.simulator.url,
      options: { runToken: new Secret(other) },
    });
    try {
      const { body } = await rotated.admin('PUT', RUN_PATH, { token: other });
      expect(body).toMatchObject({ id: keyId, caps: [{}, { reserved: 3_005 }] });
      const newKey = deriveRunKey(other, 'test', RUN).key;
      const send = (with_: string) =>
        rotated.post('/v1/payment_intents', createForm(1), { key: with_ });
      expect((await send(key)).body.error.code).toBe('vault_key_unknown');
      expect((await send(newKey)).body.error.code).toBe('period_mismatch');
      const { rows } = await sql`
        SELECT actor FROM vault_key_changes WHERE key_id = ${keyId} AND action = 'secret_rotated'`.execute(
        engine.db,
      );
      expect(rows).toEqual([{ actor: 'worker' }]);
    } finally {
      await rotated.vault.shutdown();
    }
  });

  it('stays revoked, also for workers that ask again', async () => {
    await vault.admin('DELETE', `/vault/keys/${keyId}`, {
      body: { reason: 'a test', operator: 'ada' },
    });
    const answer = await open();
    expect([answer.status, answer.body.error.code]).toEqual([409, 'vault_key_revoked']);
  });
});

describe('the vault as a process', () => {
  const refusal = async (parts: Partial<VaultOptions>): Promise<unknown> => {
    const host = '127.0.0.1';
    return startVault({
      databaseUrl: new Secret(engine.databaseUrl),
      stripe: { apiKey: new Secret(TEST_KEY), apiBase: engine.simulator.url, timeoutMs: 5_000 },
      mode: 'test',
      absenceQuietMs: 1_000,
      adminToken: new Secret(ADMIN_TOKEN),
      runToken: undefined,
      alerts: { webhook: null, slackUrl: null },
      proxy: { host, port: 0 },
      admin: { host, port: 0 },
      log: { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} },
      ...parts,
    }).catch((error: unknown) => error);
  };
  const stripe = (key: string, apiBase?: string) => ({
    stripe: { apiKey: new Secret(key), apiBase, accountId: 'acct_1', timeoutMs: 5_000 },
  });

  it.each<[string, Partial<VaultOptions>, string]>([
    ['no admin token', { adminToken: undefined }, 'VAULT_ADMIN_TOKEN'],
    ['a short admin token', { adminToken: new Secret('vat_short') }, 'VAULT_ADMIN_TOKEN'],
    ['one token for both', { runToken: new Secret(ADMIN_TOKEN) }, 'VAULT_RUN_TOKEN'],
    ['a live key in test mode', stripe('sk_live_1'), 'STRIPE_API_KEY'],
    ['a test key in live mode', { mode: 'live' }, 'CHARGEONCE_MODE'],
    [
      'a live key without TLS',
      { ...stripe('sk_live_1', 'http://127.0.0.1:9'), mode: 'live' },
      'STRIPE_API_BASE',
    ],
    ['a vault key as its own', stripe(`vk_test_${'0'.repeat(16)}`), 'STRIPE_API_KEY'],
  ])('refuses to start with %s, and says which variable it is', async (_what, parts, variable) => {
    const error = await refusal(parts);
    expect(error).toBeInstanceOf(VaultRefusesToStart);
    expect(String(error)).toContain(variable);
    expect(String(error)).not.toContain(ADMIN_TOKEN);
  });
});
