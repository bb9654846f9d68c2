import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { insertVaultKey } from '../../src/db/vault-keys.ts';
import { hashKey, newKey } from '../../src/vault-key.ts';
import { startEngine, type Engine } from '../support/engine.ts';
import {
  ADMIN_TOKEN,
  createForm,
  ORDER,
  RUN_TOKEN,
  startTestVault,
  type TestVault,
} from '../support/vault.ts';

const WHY = { reason: 'a test', operator: 'ada' };

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

/** What was done to a key, oldest first. */
async function changesOf(keyId: string): Promise<readonly unknown[]> {
  const { rows } = await sql`
    SELECT actor, action, reason, details FROM vault_key_changes WHERE key_id = ${keyId} ORDER BY id`.execute(
    engine.db,
  );
  return rows;
}

describe('who may call the admin API', () => {
  it.each([
    ['no token', null],
    ['another token', `vat_${'c'.repeat(64)}`],
    ['the beginning of the token', ADMIN_TOKEN.slice(0, -1)],
    ['the token and more', `${ADMIN_TOKEN}0`],
    ["the run's token", RUN_TOKEN],
  ])('answers 401 to %s, whatever is asked', async (_what, token) => {
    const asked = [
      ['GET', '/vault/keys'],
      ['POST', '/vault/keys'],
      ['PATCH', '/vault/keys/0000000000000000'],
      ['DELETE', '/vault/keys/0000000000000000'],
      ['POST', '/vault/sweep'],
      ['GET', '/vault/drift'],
      ['GET', '/metrics'],
      ['GET', '/nothing/here'],
    ] as const;
    for (const [method, path] of asked) {
      const answer = await vault.admin(method, path, { token });
      expect([path, answer.status, answer.body?.error?.code]).toEqual([path, 401, 'token_wrong']);
    }
  });

  it('lets the run token ask for the account, and open and close runs', async () => {
    const asked = (method: string, path: string) => vault.admin(method, path, { token: RUN_TOKEN });
    expect(await asked('GET', '/vault/account')).toMatchObject({
      status: 200,
      body: { account: engine.deps.account, livemode: false },
    });
    expect((await asked('PUT', '/vault/runs/base/2019-01')).body.error.code).toBe(
      'run_not_planned',
    );
    expect(await asked('POST', '/vault/runs/base/2019-01/close')).toMatchObject({
      status: 200,
      body: { closed: false },
    });
    expect((await asked('PUT', '/vault/runs/Base/2019-01')).status).toBe(400);
    expect((await asked('PUT', '/vault/runs/base/2019-13')).status).toBe(400);
    expect((await vault.admin('GET', '/vault/account', { token: null })).status).toBe(401);
  });

  it('answers the health checks without a token', async () => {
    for (const path of ['/healthz', '/readyz'])
      expect(await vault.admin('GET', path, { token: null })).toMatchObject({
        status: 200,
        body: { ok: true },
      });
  });
});

describe('a key', () => {
  it('V11: is answered as it was stored, every field of it', async () => {
    const { id, key } = await vault.makeKey({
      cap_basis: 'billing_period',
      billing_period: '2026-11',
      expires_at: '2027-01-31T00:00:00+01:00',
      operator: 'ada',
    });
    const { body } = await vault.admin('GET', `/vault/keys/${id}`);
    expect(body).toEqual({
      id,
      vendor: 'stripe',
      account: engine.deps.account,
      livemode: false,
      status: 'active',
      cap_basis: 'billing_period',
      namespace: null,
      billing_period: '2026-11',
      caps: [
        {
          currency: 'usd',
          window: null,
          cap: 10_000,
          expected: null,
          reserved: 0,
          spent: 0,
          remaining: 10_000,
        },
      ],
      allowed_endpoints: ORDER.allowed_endpoints,
      expires_at: '2027-01-30T23:00:00.000Z',
      open_until: null,
      revoked_at: null,
      created_at: expect.any(String),
      created_by: 'ada',
    });
    expect(key).toMatch(/^vk_test_[0-9a-f]{16}_[0-9a-f]{64}$/);
    expect(key).toContain(id);
  });

  it('V8: is shown once: no later answer, log line or row has it or its hash', async () => {
    const { id, key } = await vault.makeKey({ max_amount: 1 });
    const secret = key.slice(-64);
    await vault.post('/v1/payment_intents', createForm(500), { key });
    const texts = [
      (await vault.admin('GET', `/vault/keys/${id}`)).text,
      (await vault.admin('GET', '/vault/keys')).text,
      (await vault.admin('PATCH', `/vault/keys/${id}`, { body: { ...WHY } })).text,
      (await vault.admin('GET', '/metrics')).text,
      JSON.stringify(vault.log),
    ];
    const { rows } = await sql<{ text: string }>`
      SELECT query_to_xml('SELECT * FROM ' || table_name, false, false, '')::text AS text
      FROM information_schema.tables WHERE table_name LIKE 'vault_%' AND table_name <> 'vault_keys'`.execute(
      engine.db,
    );
    texts.push(...rows.map(({ text }) => text));
    expect(texts.join(' ')).toContain(id);
    for (const hidden of [secret, hashKey(key).toString('hex'), hashKey(key).toString('base64')])
      expect(texts.filter((text) => text.includes(hidden))).toEqual([]);
    const stored = await engine.db
      .selectFrom('vault_keys')
      .selectAll()
      .where('key_id', '=', id)
      .executeTakeFirstOrThrow();
    expect(Buffer.from(stored.secret_hash).equals(hashKey(key))).toBe(true);
    expect(JSON.stringify({ ...stored, secret_hash: null })).not.toContain(secret);
  });

  it.each<[string, unknown, string]>([
    ['an unknown field', { ...ORDER, colour: 'red' }, 'colour'],
    ['a past expiry', { ...ORDER, expires_at: '2020-01-01T00:00:00Z' }, 'expires_at'],
    ['cap 0', { ...ORDER, max_amount: 0 }, 'max_amount'],
    ['two caps', { ...ORDER, daily_usd_cap: 10 }, 'daily_usd_cap'],
    ['another vendor', { ...ORDER, vendor: 'adyen' }, 'vendor'],
    ['a currency that is none', { ...ORDER, currency: 'xyz' }, 'currency'],
    ['no period', { ...ORDER, cap_basis: 'billing_period' }, 'billing_period'],
    ['nothing allowed', { ...ORDER, allowed_endpoints: [] }, 'allowed_endpoints'],
    ['no capping', { ...ORDER, allowed_endpoints: ['POST /v1/payouts'] }, 'allowed_endpoints[0]'],
  ])('with %s is refused with 400, and the answer names the field', async (_what, body, param) => {
    const answer = await vault.admin('POST', '/vault/keys', { body });
    expect(answer.status).toBe(400);
    const code = expect.stringMatching(/^parameter_(?:unknown|missing|invalid)$/);
    expect(answer.body.error).toMatchObject({ type: 'vault_error', code, param });
  });

  it.each([
    ['broken JSON', '{"vendor":'],
    ['a prototype', '{"vendor":"stripe","__proto__":{"max_amount":5}}'],
    ['no body', undefined],
  ])('is refused as a whole when it is %s', async (_what, body) => {
    const answer = await vault.admin('POST', '/vault/keys', { body });
    expect([answer.status, answer.body.error.code]).toEqual([400, 'body_invalid']);
  });

  it('is refused when its order is larger than the admin API reads', async () => {
    const body = { ...ORDER, operator: 'a'.repeat(70_000) };
    expect((await vault.admin('POST', '/vault/keys', { body })).status).toBe(413);
  });

  it('is unknown under another id', async () => {
    for (const method of ['GET', 'PATCH', 'DELETE']) {
      const body = method === 'GET' ? undefined : { ...WHY, ...raiseTo(20_000, method) };
      const answer = await vault.admin(method, '/vault/keys/0123456789abcdef', { body });
      expect(answer).toMatchObject({ status: 404, body: { error: { code: 'vault_key_unknown' } } });
    }
  });
});

/** A raise is what PATCH needs and DELETE must not have. */
function raiseTo(capMinor: number, method = 'PATCH'): object {
  return method === 'PATCH' ? { currency: 'usd', max_amount: capMinor } : {};
}

describe('a change of a key', () => {
  it('raises the cap, never lowers it, says who and why in the log, and counts for the next call', async () => {
    const { id, key } = await vault.makeKey({ max_amount: 1_000 });
    const create = () =>
      vault.post('/v1/payment_intents', createForm(600), { key, idempotencyKey: `${id}-2` });
    expect((await vault.post('/v1/payment_intents', createForm(600), { key })).status).toBe(200);
    expect((await create()).body.error.code).toBe('spend_cap_exceeded');

    const raise = (capMinor: number) =>
      vault.admin('PATCH', `/vault/keys/${id}`, { body: { ...WHY, ...raiseTo(capMinor) } });
    expect((await raise(900)).body.error).toMatchObject({ param: 'max_amount' });
    expect((await raise(1_000)).body.error).toMatchObject({ param: 'max_amount' });
    const raised = await raise(1_200);
    expect(raised.body.caps[0]).toMatchObject({ cap: 1_200, reserved: 600, remaining: 600 });
    expect((await create()).status).toBe(200);
    expect(await changesOf(id)).toMatchObject([
      { action: 'created', actor: 'admin' },
      {
        action: 'cap_raised',
        actor: 'ada',
        reason: 'a test',
        details: { currency: 'usd', from: 1_000, to: 1_200 },
      },
    ]);
  });

  it('refuses a currency that the key has no cap in', async () => {
    const { id } = await vault.makeKey();
    const body = { ...WHY, currency: 'eur', max_amount: 99_999 };
    const answer = await vault.admin('PATCH', `/vault/keys/${id}`, { body });
    expect(answer).toMatchObject({ status: 400, body: { error: { param: 'currency' } } });
  });

  it('extends a key and never shortens it', async () => {
    const soon = new Date(Date.now() + 3_600_000).toISOString();
    const { id } = await vault.makeKey({ expires_at: soon });
    const extend = (expires_at: string) =>
      vault.admin('PATCH', `/vault/keys/${id}`, { body: { ...WHY, expires_at } });
    const later = new Date(Date.now() + 7_200_000).toISOString();
    expect((await extend(later)).body.expires_at).toBe(later);
    expect((await extend(soon)).body.error.param).toBe('expires_at');
  });

  it('revokes a key with its next call, for good', async () => {
    const { id, key } = await vault.makeKey();
    const send = () => vault.post('/v1/payment_intents', createForm(100), { key });
    expect((await send()).status).toBe(200);
    const revoked = await vault.admin('DELETE', `/vault/keys/${id}`, { body: WHY });
    expect(revoked.body).toMatchObject({ id, status: 'revoked' });
    const refused = await send();
    expect([refused.status, refused.body.error.code]).toEqual([401, 'vault_key_revoked']);
    const again = await vault.admin('DELETE', `/vault/keys/${id}`, { body: WHY });
    expect(again.body.revoked_at).toBe(revoked.body.revoked_at);
    const raise = { ...WHY, ...raiseTo(99_999) };
    const raised = await vault.admin('PATCH', `/vault/keys/${id}`, { body: raise });
    expect([raised.status, raised.body.error.code]).toEqual([409, 'vault_key_revoked']);
    expect(await changesOf(id)).toHaveLength(2);
  });

  it('V7: refuses a key past its end', async () => {
    const { keyId, key } = newKey('test');
    await insertVaultKey(engine.db, {
      keyId,
      secretHash: hashKey(key),
      account: engine.deps.account,
      liveMode: false,
      capBasis: 'total',
      namespace: null,
      period: null,
      allowedEndpoints: ORDER.allowed_endpoints,
      expiresAt: new Date(Date.now() - 1_000),
      caps: [{ currency: 'usd', capMinor: 1_000, expectedMinor: null }],
      actor: 'test',
    });
    const refused = await vault.post('/v1/payment_intents', createForm(100), { key });
    expect([refused.status, refused.body.error.code]).toEqual([401, 'vault_key_expired']);
    expect((await vault.admin('GET', `/vault/keys/${keyId}`)).body.status).toBe('expired');
  });
});

describe('what the vault tells', () => {
  it('shows metrics by decision, key and currency, and no secret in any of them', async () => {
    const { id, key } = await vault.makeKey({ max_amount: 700 });
    await vault.post('/v1/payment_intents', createForm(600), { key });
    await vault.post('/v1/payment_intents', createForm(600), { key });
    const { text } = await vault.admin('GET', '/metrics');
    expect(text).toContain(`chargeonce_vault_cap_minor{key="${id}",currency="usd"} 700`);
    expect(text).toContain(`chargeonce_vault_reserved_minor{key="${id}",currency="usd"} 600`);
    expect(text).toMatch(/chargeonce_vault_requests_total\{decision="forward"\} [1-9]/);
    expect(text).toMatch(/chargeonce_vault_requests_total\{decision="spend_cap_exceeded"\} [1-9]/);
    expect(text).toMatch(/chargeonce_vault_upstream_answers_total\{status="200"\} [1-9]/);
    expect(text).toContain('chargeonce_vault_in_flight 0');
    expect(text).toContain('chargeonce_vault_database_up 1');
    expect(text).not.toMatch(/[svr][ka]t?_[a-z]+_?[A-Za-z0-9]{20}/);
  });

  it('finds that its sums agree', async () => {
    const { body } = await vault.admin('GET', '/vault/drift');
    expect(body.windows.length).toBeGreaterThan(3);
    expect(body.differing).toEqual([]);
  });
});
