import { sql } from 'kysely';
import Stripe from 'stripe';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { Secret } from '../../src/secret.ts';
import { deriveRunKey } from '../../src/vault-key.ts';
import { startEngine, type Engine } from '../support/engine.ts';
import {
  startWireServer,
  type WireAction,
  type WireRequest,
  type WireServer,
} from '../../failures/harness/wire-server.ts';
import { runRef } from '../support/names.ts';
import { createForm, RUN_TOKEN, startTestVault, type TestVault } from '../support/vault.ts';

const WEBHOOK_SECRET = `whsec_${'e'.repeat(40)}`;
const ACCEPT: WireAction = { status: 200, body: {} };

let engine: Engine;
let webhook: WireServer;
let slack: WireServer;
let elsewhere: WireServer;
let vaults: readonly [TestVault, TestVault];
let webhookSays: WireAction = ACCEPT;

beforeAll(async () => {
  engine = await startEngine();
  webhook = await startWireServer(() => webhookSays);
  slack = await startWireServer(() => ACCEPT);
  elsewhere = await startWireServer(() => ACCEPT);
  const start = () =>
    startTestVault({
      databaseUrl: engine.databaseUrl,
      stripeUrl: engine.simulator.url,
      options: {
        alerts: {
          webhook: { url: new Secret(`${webhook.url}/alerts`), secret: new Secret(WEBHOOK_SECRET) },
          slackUrl: new Secret(`${slack.url}/services/T0/B0/hidden`),
        },
        pauses: { alertsMs: 50, driftMs: 100, sweepMs: 100 },
      },
    });
  vaults = [await start(), await start()];
});

afterEach(() => {
  webhookSays = ACCEPT;
});

afterAll(async () => {
  await Promise.all(vaults.map(({ vault }) => vault.shutdown()));
  await Promise.all([webhook, slack, elsewhere].map((server) => server.close()));
  await engine.close();
});

interface Row {
  readonly kind: string;
  readonly tries: number;
  readonly delivered: boolean;
}

/** Alerts about a key; of nobody's key for null. */
async function alertsOf(keyId: string | null): Promise<readonly Row[]> {
  const { rows } = await sql<Row>`
    SELECT kind, tries, done_at IS NOT NULL AS delivered FROM vault_alerts
    WHERE key_id IS NOT DISTINCT FROM ${keyId} ORDER BY alert_id`.execute(engine.db);
  return rows;
}

async function kindsOf(keyId: string | null): Promise<string[]> {
  return (await alertsOf(keyId)).map(({ kind }) => kind).sort();
}

/** Waits until every alert of the key is delivered. */
async function delivered(keyId: string): Promise<void> {
  await expect
    .poll(async () => {
      const rows = await alertsOf(keyId);
      return rows.length > 0 && rows.every((row) => row.delivered);
    })
    .toBe(true);
}

/** Due now: the pauses between tries are minutes. */
async function makeDue(keyId: string): Promise<void> {
  await sql`UPDATE vault_alerts SET next_try_at = now() WHERE key_id = ${keyId}`.execute(engine.db);
}

const about = (server: WireServer, text: string): WireRequest[] =>
  server.requests.filter(({ body }) => body.includes(text));

describe('an exhausted cap', () => {
  it('gives one alert under 100 refusals at once over two vaults, and another one after a raise', async () => {
    const [first, second] = vaults;
    const { id, key } = await first.makeKey({ max_amount: 1_000 });
    const refuse100 = async (): Promise<Set<number>> => {
      const answers = await Promise.all(
        Array.from({ length: 100 }, (_, i) =>
          (i % 2 === 0 ? first : second).post('/v1/payment_intents', createForm(900), { key }),
        ),
      );
      return new Set(answers.map(({ status }) => status));
    };
    await first.post('/v1/payment_intents', createForm(700), { key });
    expect(await refuse100()).toEqual(new Set([402]));
    await expect.poll(() => kindsOf(id)).toEqual(['spend_cap_exceeded']);
    await delivered(id);
    expect(about(webhook, id)).toHaveLength(1);
    expect(about(slack, id)).toHaveLength(1);
    const lines = vaults.flatMap(({ log }) =>
      log.filter(({ fields }) => fields['alert'] === 'spend_cap_exceeded'),
    );
    expect(lines).toHaveLength(1);
    const counts = await Promise.all(vaults.map((vault) => vault.admin('GET', '/metrics')));
    const counted = counts.filter(({ text }) =>
      text.includes('chargeonce_vault_alerts_total{kind="spend_cap_exceeded"} 1'),
    );
    expect(counted).toHaveLength(1);

    const body = { currency: 'usd', max_amount: 1_100, reason: 'a test', operator: 'ada' };
    await second.admin('PATCH', `/vault/keys/${id}`, { body });
    await refuse100();
    await expect.poll(() => kindsOf(id)).toEqual(['spend_cap_exceeded', 'spend_cap_exceeded']);
    await delivered(id);
    expect(about(webhook, id)).toHaveLength(2);
  });

  it('V9: is told with its numbers, signed so that Stripe’s own client verifies it, and to a chat as text', async () => {
    const [vault] = vaults;
    const { id, key } = await vault.makeKey({ max_amount: 100 });
    await vault.post('/v1/payment_intents', createForm(250), { key });
    await delivered(id);
    const [sent] = about(webhook, id);
    const { headers, body = '', path, method } = sent ?? {};
    expect([method, path]).toEqual(['POST', '/alerts']);
    const signature = String(headers?.['chargeonce-signature']);
    const verify = (secret: string, text: string) => () =>
      Stripe.webhooks.signature?.verifyHeader(text, signature, secret, 300);
    expect(verify(WEBHOOK_SECRET, body)()).toBe(true);
    expect(verify('whsec_another', body)).toThrow(/signature/);
    expect(verify(WEBHOOK_SECRET, body.replace('250', '249'))).toThrow(/signature/);
    expect(JSON.parse(body)).toEqual({
      id: expect.stringMatching(/^alert_\d+$/),
      kind: 'spend_cap_exceeded',
      vault_key: id,
      at: expect.any(String),
      message: expect.stringContaining('250 usd were asked for and refused; 0 of 100 usd'),
      details: expect.objectContaining({ asked_minor: 250, used_minor: 0, cap_minor: 100 }),
    });
    const [chat] = about(slack, id);
    expect(JSON.parse(chat?.body ?? '')).toEqual({
      text: expect.stringMatching(/^chargeonce: vault key [0-9a-f]{16}: the cap has no room/),
    });
    expect(chat?.path).toBe('/services/T0/B0/hidden');
  });
});

describe('a delivery', () => {
  it('is tried again until it is accepted, with the same id, and only where it is missing', async () => {
    const [vault] = vaults;
    webhookSays = { status: 500, body: {} };
    const { id, key } = await vault.makeKey({ max_amount: 100 });
    await vault.post('/v1/payment_intents', createForm(250), { key });
    await expect.poll(() => about(webhook, id).length).toBe(1);
    await expect.poll(() => about(slack, id).length).toBe(1);
    webhookSays = 'close';
    await makeDue(id);
    await expect.poll(() => about(webhook, id).length).toBe(2);
    expect(await alertsOf(id)).toMatchObject([{ delivered: false }]);
    webhookSays = ACCEPT;
    await makeDue(id);
    await delivered(id);
    await makeDue(id);
    const sent = about(webhook, id).map(({ body }) => JSON.parse(body).id);
    expect(sent).toHaveLength(3);
    expect(new Set(sent).size).toBe(1);
    expect(about(slack, id)).toHaveLength(1);
    const [row] = await alertsOf(id);
    expect(row?.tries).toBe(3);
    const said = JSON.stringify(vaults.map(({ log }) => log));
    expect(said).toContain('an alert was not taken');
    expect(said).not.toContain('hidden');
    expect(said).not.toContain(WEBHOOK_SECRET);
  });

  it('follows no redirect: the alert stays until its own receiver takes it', async () => {
    const [vault] = vaults;
    webhookSays = { status: 307, body: {}, headers: { location: `${elsewhere.url}/stolen` } };
    const { id, key } = await vault.makeKey({ max_amount: 100 });
    await vault.post('/v1/payment_intents', createForm(250), { key });
    await expect.poll(() => about(webhook, id).length).toBe(1);
    webhookSays = ACCEPT;
    await makeDue(id);
    await delivered(id);
    expect(elsewhere.requests).toEqual([]);
  });
});

describe('what else alerts, once', () => {
  const twice = async (send: () => Promise<{ status: number }>): Promise<number> => {
    await send();
    return (await send()).status;
  };

  it('80 % of a cap, and more than the plan of a run expects', async () => {
    const [vault] = vaults;
    const run = await engine.plan([{ id: 'expected', amountMinor: 10_000 }], runRef());
    await vault.admin('PUT', `/vault/runs/${run.namespace}/${run.period}`, { token: RUN_TOKEN });
    const { key, keyId } = deriveRunKey(RUN_TOKEN, 'test', run);
    const send = (amount: number) =>
      vault.post(
        '/v1/payment_intents',
        {
          ...createForm(amount),
          'metadata[chargeonce_namespace]': run.namespace,
          'metadata[chargeonce_period]': run.period,
          'metadata[chargeonce_customer]': 'expected',
        },
        { key },
      );
    expect((await send(8_700)).status).toBe(200);
    expect(await kindsOf(keyId)).toEqual([]);
    expect((await send(200)).status).toBe(200);
    await expect.poll(() => kindsOf(keyId)).toEqual(['spend_at_80_percent']);
    expect((await send(1_500)).status).toBe(200);
    await expect
      .poll(() => kindsOf(keyId))
      .toEqual(['spend_above_expected', 'spend_at_80_percent']);
    await delivered(keyId);
    expect(about(webhook, keyId)[1]?.body).toContain('more is used than the plan expects (10000)');
  });

  it('a payment that Stripe shows after its sum was given back, above a cap that is full by then', async () => {
    const [vault] = vaults;
    const { id, key } = await vault.makeKey({ max_amount: 1_000 });
    await vault.post('/v1/payment_intents', createForm(900), { key });
    const move = (to: string) =>
      sql`SELECT vault_move(reservation_id, ${to}, 'as a look says', 'test') FROM vault_reservations
        WHERE key_id = ${id} AND amount_minor = 900`.execute(engine.db);
    // As the sweep does when nobody confirms it; then others take the room, and somebody confirms it elsewhere.
    await move('released');
    await vault.post('/v1/payment_intents', createForm(700), { key });
    await expect.poll(() => kindsOf(id)).toEqual(['spend_at_80_percent']);
    await move('spent');
    await expect.poll(() => kindsOf(id)).toEqual(['spend_above_cap', 'spend_at_80_percent']);
    await delivered(id);
    const bodies = about(webhook, id).map(({ body }) => body);
    expect(bodies.some((body) => body.includes('1600 of 1000 usd'))).toBe(true);
  });

  it('a denied endpoint, a POST without a key, and a revoked key', async () => {
    const [vault] = vaults;
    const { id, key } = await vault.makeKey();
    expect(await twice(() => vault.post('/v1/refunds', { charge: 'ch_1' }, { key }))).toBe(403);
    const form = createForm(100);
    const options = { key, idempotencyKey: null };
    expect(await twice(() => vault.post('/v1/payment_intents', form, options))).toBe(400);
    await vault.admin('DELETE', `/vault/keys/${id}`, { body: { reason: 'x', operator: 'ada' } });
    expect(await twice(() => vault.post('/v1/payment_intents', form, { key }))).toBe(401);
    await expect
      .poll(() => kindsOf(id))
      .toEqual(['endpoint_denied', 'idempotency_key_missing', 'unknown_or_expired_key']);
    await delivered(id);
    expect(about(webhook, id)).toHaveLength(3);
  });

  it('sums that do not add up, until they do', async () => {
    const [vault] = vaults;
    const { id, key } = await vault.makeKey();
    await vault.post('/v1/payment_intents', createForm(100), { key });
    const change = (minor: number) =>
      sql`UPDATE vault_windows SET used_minor = used_minor + ${minor} WHERE key_id = ${id}`.execute(
        engine.db,
      );
    expect(await kindsOf(id)).toEqual([]);
    await change(7);
    await expect.poll(() => kindsOf(id)).toEqual(['drift']);
    await delivered(id);
    await change(-7);
    expect(about(webhook, id)[0]?.body).toContain('"used_minor":107,"ledger_minor":100');
  });

  it('strangers, however many keys they invent', async () => {
    const [first, second] = vaults;
    for (const [i, vault] of [first, second, first, second].entries()) {
      const key = `vk_test_${String(i).repeat(16)}_${'f'.repeat(64)}`;
      const answer = await vault.post('/v1/payment_intents', createForm(100), { key });
      expect(answer.status).toBe(401);
    }
    await expect.poll(() => kindsOf(null)).toEqual(['unknown_or_expired_key']);
    expect(JSON.stringify(webhook.requests)).not.toContain('f'.repeat(64));
  });
});
