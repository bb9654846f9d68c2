import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createdVaultKey } from '../../src/http/api/schemas/vault.ts';
import { Secret } from '../../src/secret.ts';
import { hashKey, newKey } from '../../src/vault-key.ts';
import { insertVaultKey } from '../../src/db/vault-keys.ts';
import { startEngine, type Engine } from '../support/engine.ts';
import {
  ADA,
  OLGA,
  PAUL,
  readAllPages,
  startOperatorApi,
  VERA,
  type OperatorApi,
} from '../support/operator-api.ts';
import {
  ADMIN_TOKEN,
  createForm,
  ORDER,
  startTestVault,
  type TestVault,
} from '../support/vault.ts';

let engine: Engine;
let vault: TestVault;
let api: OperatorApi;

beforeAll(async () => {
  engine = await startEngine();
  vault = await startTestVault({
    databaseUrl: engine.databaseUrl,
    stripeUrl: engine.simulator.url,
  });
  api = await startOperatorApi(engine.db, {
    account: engine.deps.account,
    vaultAdmin: { url: vault.vault.adminUrl, token: new Secret(ADMIN_TOKEN) },
  });
});
afterAll(async () => {
  await api.close();
  await vault.vault.shutdown();
  await engine.close();
});

const reason = 'for the shop';
const make = async (parts: object = {}, key?: string) =>
  api.call('POST', '/v1/vault/keys', {
    as: ADA,
    body: { ...ORDER, reason, ...parts },
    ...(key === undefined ? {} : { key }),
  });

async function madeKey(parts: object = {}) {
  return createdVaultKey.parse((await make(parts)).body);
}

async function vaultChanges(keyId: string) {
  return engine.db
    .selectFrom('vault_key_changes')
    .select(['actor', 'action', 'reason'])
    .where('key_id', '=', keyId)
    .orderBy('id')
    .execute();
}

async function logged(action: string) {
  const { rows } = await sql<{ actor: string; reason: string; details: object }>`
    SELECT actor, reason, details FROM audit_log WHERE action = ${action} ORDER BY id DESC LIMIT 1`.execute(
    engine.db,
  );
  return rows[0];
}

describe('POST /v1/vault/keys', () => {
  it('makes a key in the name of the caller, which spends at the proxy as ordered', async () => {
    const answer = await make({ max_amount: 2_000 });
    expect(answer.status).toBe(201);
    const made = createdVaultKey.parse(answer.body);
    expect(answer.headers.get('location')).toBe(`/v1/vault/keys/${made.id}`);
    expect(made).toMatchObject({ status: 'active', created_by: 'ada', caps: [{ cap: 2_000 }] });
    expect(await vaultChanges(made.id)).toMatchObject([{ actor: 'ada', action: 'created' }]);
    expect(await logged('vault_key.create_ordered')).toEqual({
      actor: 'ada',
      reason,
      details: { cap: 2_000, currency: 'usd' },
    });
    const paid = await vault.post('/v1/payment_intents', createForm(1_500), { key: made.key });
    expect(paid.status).toBe(200);
    const over = await vault.post('/v1/payment_intents', createForm(1_500), { key: made.key });
    expect(over.status).toBe(402);
  });

  it('shows the key once: a repeat has neither the key nor a second one', async () => {
    const first = await make({}, 'key-order-1');
    const { key, id } = createdVaultKey.parse(first.body);
    const repeat = await make({}, 'key-order-1');
    expect(JSON.stringify(repeat.body)).not.toContain(key);
    expect(repeat).toMatchObject({ body: { code: 'body-omitted' } });
    const { rows } = await sql<{ record: string }>`
      SELECT r::text AS record FROM idempotency_records r WHERE idempotency_key = 'key-order-1'`.execute(
      engine.db,
    );
    expect(rows).toHaveLength(1);
    expect(rows[0]?.record).not.toContain(key);
    const keys = await readAllPages(api, '/v1/vault/keys?limit=200');
    expect(keys.filter((one) => one['id'] === id)).toHaveLength(1);
    expect(JSON.stringify(keys)).not.toContain(key);
  });

  it('says what the vault refuses, and makes nothing', async () => {
    const before = await readAllPages(api, '/v1/vault/keys?limit=200');
    expect(await make({ currency: 'xxx' })).toMatchObject({
      status: 400,
      body: { code: 'vault-refused', detail: expect.stringContaining('currency') },
    });
    expect(await make({ reason: '' })).toMatchObject({
      status: 400,
      body: { code: 'parameter-invalid' },
    });
    expect(await make({ operator: 'somebody else' })).toMatchObject({ status: 400 });
    expect(await readAllPages(api, '/v1/vault/keys?limit=200')).toEqual(before);
  });
});

describe('PATCH and DELETE /v1/vault/keys/{id}', () => {
  it('raise a cap and extend a key, never the reverse, with who and why', async () => {
    const { id, expires_at: end } = await madeKey();
    const path = `/v1/vault/keys/${id}`;
    const raise = { currency: 'usd', max_amount: 20_000, reason: 'more is due' };
    expect(await api.call('PATCH', path, { as: PAUL, body: raise })).toMatchObject({
      status: 200,
      body: { id, caps: [{ cap: 20_000 }] },
    });
    expect(await logged('vault_key.change_ordered')).toMatchObject({
      actor: 'paul',
      reason: 'more is due',
      details: { keyId: id, cap: 20_000, currency: 'usd' },
    });
    expect(await vaultChanges(id)).toMatchObject([
      {},
      { actor: 'paul', action: 'cap_raised', reason: 'more is due' },
    ]);
    const lower = { currency: 'usd', max_amount: 1, reason: 'x' };
    expect(await api.call('PATCH', path, { as: PAUL, body: lower })).toMatchObject({
      status: 400,
      body: { code: 'vault-refused' },
    });
    const later = new Date(Date.parse(end) + 86_400_000).toISOString();
    expect(
      await api.call('PATCH', path, { as: PAUL, body: { expires_at: later, reason: 'longer' } }),
    ).toMatchObject({ status: 200, body: { expires_at: later } });
  });

  it('revoke a key for good', async () => {
    const { id, key } = await madeKey();
    const path = `/v1/vault/keys/${id}`;
    const body = { reason: 'it leaked' };
    const revoked = { status: 200, body: { id, status: 'revoked' } };
    expect(await api.call('DELETE', path, { body })).toMatchObject(revoked);
    expect(await api.call('DELETE', path, { body })).toMatchObject(revoked);
    expect(await vaultChanges(id)).toMatchObject([
      {},
      { actor: 'olga', action: 'revoked', reason: 'it leaked' },
    ]);
    const spent = await vault.post('/v1/payment_intents', createForm(1), { key });
    expect(spent.status).toBe(401);
    const raise = { currency: 'usd', max_amount: 99_000, reason: 'x' };
    expect(await api.call('PATCH', path, { as: PAUL, body: raise })).toMatchObject({
      status: 409,
      body: { code: 'vault-key-revoked' },
    });
    const unknown = '/v1/vault/keys/0000000000000000';
    expect(await api.call('DELETE', unknown, { body })).toMatchObject({
      status: 404,
      body: { code: 'vault-key-unknown' },
    });
  });

  it('ask for their roles', async () => {
    const { id } = await madeKey();
    const path = `/v1/vault/keys/${id}`;
    const body = { currency: 'usd', max_amount: 99_000, reason: 'x' };
    for (const [method, as] of [
      ['PATCH', OLGA],
      ['DELETE', VERA],
    ] as const)
      expect(await api.call(method, path, { as, body })).toMatchObject({ status: 403 });
    expect(
      await api.call('POST', '/v1/vault/keys', { as: PAUL, body: { ...ORDER, reason } }),
    ).toMatchObject({ status: 403 });
  });
});

describe('the vault out of reach', () => {
  it.each([
    {
      what: 'no address',
      target: null,
      code: 'vault-not-configured',
      detail: /VAULT_ADMIN_URL and VAULT_ADMIN_TOKEN/,
    },
    {
      what: 'nobody listening',
      target: { url: 'http://127.0.0.1:1', token: ADMIN_TOKEN },
      code: 'vault-unavailable',
      detail: /cannot be reached/,
    },
    {
      what: 'another token',
      target: { url: null, token: `vat_${'c'.repeat(64)}` },
      code: 'vault-unavailable',
      detail: /does not serve this server/,
    },
  ])('answers orders with a problem: $what', async ({ target, code, detail }) => {
    const other = await startOperatorApi(engine.db, {
      account: engine.deps.account,
      vaultAdmin:
        target === null
          ? null
          : { url: target.url ?? vault.vault.adminUrl, token: new Secret(target.token) },
    });
    const answer = await other.call('POST', '/v1/vault/keys', {
      as: ADA,
      body: { ...ORDER, reason },
    });
    expect(answer).toMatchObject({
      status: 503,
      body: { code, detail: expect.stringMatching(detail) },
    });
    expect(await other.call('GET', '/v1/vault/keys')).toMatchObject({ status: 200 });
    await other.close();
  });
});

describe('GET /v1/vault/keys', () => {
  it('lists each key once, the newest first, also those made in one moment', async () => {
    const ids: string[] = [];
    await engine.db.transaction().execute(async (trx) => {
      for (let i = 0; i < 5; i += 1) {
        const { keyId, key } = newKey('test');
        ids.push(keyId);
        await sql`INSERT INTO vault_keys (key_id, secret_hash, account, livemode, cap_basis, allowed_endpoints, expires_at, created_by)
          VALUES (${keyId}, ${hashKey(key)}, ${engine.deps.account}, false, 'total', '{"GET /v1/balance"}', now() + interval '1 day', 'test')`.execute(
          trx,
        );
      }
    });
    const rows = await readAllPages(api, '/v1/vault/keys?limit=2');
    const listed = rows.map((row) => String(row['id']));
    expect(new Set(listed).size).toBe(listed.length);
    expect(listed.slice(0, 5)).toEqual(ids.sort().toReversed());
    const all = await engine.db.selectFrom('vault_keys').select('key_id').execute();
    expect(listed).toHaveLength(all.length);
  });

  it('shows one key, and answers 404 for an unknown id', async () => {
    const { keyId, key } = newKey('test');
    await insertVaultKey(engine.db, {
      keyId,
      secretHash: hashKey(key),
      account: engine.deps.account,
      liveMode: false,
      capBasis: 'total',
      namespace: null,
      period: null,
      allowedEndpoints: ['GET /v1/balance'],
      expiresAt: new Date(Date.now() - 1_000),
      caps: [{ currency: 'eur', capMinor: 7, expectedMinor: null }],
      actor: 'test',
    });
    expect(await api.call('GET', `/v1/vault/keys/${keyId}`, { as: VERA })).toMatchObject({
      status: 200,
      body: { id: keyId, status: 'expired', caps: [{ currency: 'eur', cap: 7, remaining: 7 }] },
    });
    expect(await api.call('GET', '/v1/vault/keys/0000000000000000')).toMatchObject({ status: 404 });
    expect(await api.call('GET', '/v1/vault/keys/nothing')).toMatchObject({ status: 400 });
  });
});

describe('GET /v1/vault/log', () => {
  it('answers in one sentence whether a key went out twice, with its requests', async () => {
    const { id, key } = await madeKey();
    const options = { key, idempotencyKey: 'log-1' };
    await vault.post('/v1/payment_intents', createForm(500), options);
    await vault.post('/v1/payment_intents', createForm(500), options);
    const { status, body } = await api.call('GET', '/v1/vault/log?idempotency_key=log-1', {
      as: VERA,
    });
    expect({ status, body }).toMatchObject({
      status: 200,
      body: {
        answer: expect.stringMatching(
          /^It went out twice under one key: Stripe executed the first/,
        ),
        truncated: false,
        data: [
          { vault_key: id, amount: 500, answer: { status: 200, replayed: false } },
          { vault_key: id, amount: 500, answer: { status: 200, replayed: true } },
        ],
      },
    });
    const one = await api.call('GET', `/v1/vault/log?vault_key=${id}&limit=1`);
    expect(one).toMatchObject({
      body: { truncated: true, data: [{ answer: { replayed: true } }] },
    });
  });

  it('is never read as a whole', async () => {
    expect(await api.call('GET', '/v1/vault/log')).toMatchObject({
      status: 400,
      body: { code: 'parameter-invalid', detail: expect.stringContaining('say what to look for') },
    });
    expect(await api.call('GET', '/v1/vault/log?idempotency_key=never')).toMatchObject({
      status: 200,
      body: { answer: expect.stringContaining('Never reached the vault'), data: [] },
    });
  });
});
