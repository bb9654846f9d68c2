import { execFile as execFileCallback } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify, stripVTControlCharacters } from 'node:util';
import { sql } from 'kysely';
import Stripe from 'stripe';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { EXIT } from '../../src/cli/exit-codes.ts';
import { registerVault } from '../../src/cli/commands/vault.ts';
import { testHome, type Running } from '../support/cli.ts';
import { startEngine, TEST_KEY, type Engine } from '../support/engine.ts';
import {
  startWireServer,
  type WireAction,
  type WireServer,
} from '../../failures/harness/wire-server.ts';
import { runInProcess, type Commanded } from '../support/in-process.ts';
import { ADMIN_TOKEN, createForm, RUN_TOKEN } from '../support/vault.ts';

const execFile = promisify(execFileCallback);

let engine: Engine;
let wire: WireServer;
let command: Running;
let addresses: z.infer<typeof addressesSchema>;
/** what happens between vault and Stripe */
let network: WireAction = 'forward';

const addressesSchema = z.object({
  proxyUrl: z.string(),
  adminUrl: z.string(),
  account: z.string(),
  mode: z.literal('test'),
});
const keySchema = z.object({ id: z.string(), key: z.string() });

beforeAll(async () => {
  engine = await startEngine();
  wire = await startWireServer(() => network, engine.simulator.url);
  const home = await testHome();
  command = home.start(['vault', '--proxy-port', '0', '--admin-port', '0', '--json'], {
    env: {
      DATABASE_URL: engine.databaseUrl,
      STRIPE_API_KEY: TEST_KEY,
      STRIPE_API_BASE: wire.url,
      VAULT_ADMIN_TOKEN: ADMIN_TOKEN,
      VAULT_RUN_TOKEN: RUN_TOKEN,
    },
  });
  const [line] = await command.shows(/^\{"proxyUrl".*\}$/m);
  addresses = addressesSchema.parse(JSON.parse(line));
});

afterAll(async () => {
  command.kill('SIGKILL');
  await wire.close();
  await engine.close();
});

/** A command of an operator who has the admin token and the database, and no Stripe key. */
function run(...args: string[]): Promise<Commanded> {
  return runInProcess(registerVault, ['vault', ...args], {
    DATABASE_URL: engine.databaseUrl,
    VAULT_ADMIN_URL: addresses.adminUrl,
    VAULT_ADMIN_TOKEN: ADMIN_TOKEN,
  });
}

async function makeKey(maxAmount: number): Promise<z.infer<typeof keySchema>> {
  const cap = ['--max-amount', String(maxAmount), '--currency', 'usd'];
  const endpoints = ['POST /v1/payment_intents', 'POST /v1/payment_intents/:id/confirm'];
  const made = await run('keys', 'create', ...cap, '--json', '--endpoint', ...endpoints);
  return keySchema.parse(made.json());
}

async function post(path: string, form: Record<string, string>, as: { key: string; once: string }) {
  const response = await fetch(new URL(path, addresses.proxyUrl), {
    method: 'POST',
    headers: { authorization: `Bearer ${as.key}`, 'idempotency-key': as.once },
    body: new URLSearchParams(form),
  });
  const body = z.object({ id: z.string().optional() }).parse(await response.json());
  return { status: response.status, id: body.id ?? '' };
}

/** The sentence that the log answers with. */
async function answer(...args: string[]): Promise<string> {
  const { code, stdout } = await run('log', ...args);
  expect(code).toBe(EXIT.ok);
  return stripVTControlCharacters(stdout.split('\n')[0] ?? '');
}

describe('chargeonce vault', () => {
  it('is Stripe to stripe-node, unchanged but for base URL and key', async () => {
    const { key, id } = await makeKey(10_000);
    const url = new URL(addresses.proxyUrl);
    const stripe = new Stripe(key, {
      host: url.hostname,
      port: Number(url.port),
      protocol: 'http',
      maxNetworkRetries: 0,
    });
    const intent = await stripe.paymentIntents.create(
      { amount: 1_500, currency: 'usd', customer: 'cus_1', payment_method: 'pm_card_visa' },
      { idempotencyKey: 'node-create' },
    );
    const confirmed = await stripe.paymentIntents.confirm(
      intent.id,
      { off_session: true },
      { idempotencyKey: 'node-confirm' },
    );
    expect(confirmed.status).toBe('succeeded');
    expect((await run('keys', 'show', id, '--json')).json()).toMatchObject({
      caps: [{ spent: 1_500, reserved: 0 }],
    });
  });

  it('is Stripe to curl, as the quick start of docs/vault.md shows it', async () => {
    const { key } = await makeKey(5_000);
    const page = await readFile(new URL('../../docs/vault.md', import.meta.url), 'utf8');
    const shown = /^curl http:\/\/127\.0\.0\.1:8430.*\\\n.*$/m.exec(page)?.[0] ?? '';
    const pay = async (amount: string) => {
      const command = shown
        .replace('http://127.0.0.1:8430', addresses.proxyUrl)
        .replace('amount=4000', `amount=${amount}`)
        .replace('order-1', `order-${amount}`);
      const { stdout } = await execFile('sh', ['-c', `${command} -s --noproxy '*'`], {
        env: { PATH: process.env['PATH'], KEY: key },
      });
      return z.looseObject({}).parse(JSON.parse(stdout));
    };
    const paid = await pay('4000');
    expect(paid).toMatchObject({ object: 'payment_intent', status: 'succeeded', amount: 4_000 });
    expect((await pay('4000'))['id']).toBe(paid['id']);
    expect(await pay('2000')).toMatchObject({
      error: { code: 'spend_cap_exceeded', message: expect.stringContaining('1000 remain') },
    });
  });

  it('says who it is, and keeps its secrets out of what it prints', () => {
    expect(addresses.account).toBe(engine.deps.account);
    for (const secret of [TEST_KEY, ADMIN_TOKEN, RUN_TOKEN])
      expect(command.output()).not.toContain(secret);
  });

  it('does not start without an admin token, without Stripe, or with a vault before it', async () => {
    const started = (env: Record<string, string>) =>
      runInProcess(registerVault, ['vault'], { DATABASE_URL: engine.databaseUrl, ...env });
    const stripe = { STRIPE_API_KEY: TEST_KEY, STRIPE_API_BASE: wire.url };
    const bare = await started(stripe);
    expect(bare.code).toBe(EXIT.usage);
    expect(bare.stderr).toContain('VAULT_ADMIN_TOKEN');
    const away = { STRIPE_API_KEY: TEST_KEY, STRIPE_API_BASE: 'http://127.0.0.1:9' };
    const alone = await started({ ...away, VAULT_ADMIN_TOKEN: ADMIN_TOKEN });
    expect([alone.code, alone.stderr]).toEqual([
      EXIT.unavailable,
      expect.stringContaining('Stripe cannot be asked'),
    ]);
    const behind = await started({
      VAULT_URL: addresses.proxyUrl,
      VAULT_ADMIN_URL: addresses.adminUrl,
      VAULT_RUN_TOKEN: RUN_TOKEN,
      VAULT_ADMIN_TOKEN: ADMIN_TOKEN,
    });
    expect(behind.code).toBe(EXIT.usage);
    expect(behind.stderr).toContain('VAULT_URL');
  });
});

describe('chargeonce vault log', () => {
  it('answers after a lost reply: nobody knows, then that Stripe executed it once', async () => {
    const { key } = await makeKey(10_000);
    const form = createForm(700, 'cus_lost');
    network = 'forwardThenClose';
    expect((await post('/v1/payment_intents', form, { key, once: 'lost' })).status).toBe(502);
    network = 'forward';
    expect(await answer('--idempotency-key', 'lost')).toMatch(
      /^It went out once, at .*, and nobody knows what became of it: the reply was lost, \w+; its sum stays reserved/,
    );
    expect((await post('/v1/payment_intents', form, { key, once: 'lost' })).status).toBe(200);
    expect(await answer('--idempotency-key', 'lost')).toMatch(
      /^It went out twice under one key: Stripe executed one whose reply was lost, and answered another with its saved reply/,
    );
  });

  it('answers that the retry never reached the network, and before it that nothing did', async () => {
    const { key, id } = await makeKey(1_000);
    expect(await answer('--key', id)).toBe(
      `Never reached the vault: no request is known under the vault key ${id}.`,
    );
    await post('/v1/payment_intents', createForm(5_000), { key, once: 'too-much' });
    expect(await answer('--key', key)).toBe(
      'Refused here, never forwarded: 1 request (spend_cap_exceeded), and nothing reached Stripe.',
    );
  });

  it('finds a charge by customer and period, as JSON too, and shows no secret', async () => {
    const { key } = await makeKey(10_000);
    const form = {
      ...createForm(900, 'cus_9'),
      'metadata[chargeonce_namespace]': 'base',
      'metadata[chargeonce_period]': '2026-11',
      'metadata[chargeonce_customer]': 'c9',
    };
    const created = await post('/v1/payment_intents', form, { key, once: 'c9-create' });
    const confirm = `/v1/payment_intents/${created.id}/confirm`;
    await post(confirm, { off_session: 'true' }, { key, once: 'c9-confirm' });
    const said = await run('log', '--customer', 'c9', '--period', '2026-11', '--json');
    expect(said.json()).toMatchObject({
      answer:
        'It went out once: one payment, in 2 steps with a key each, and it succeeded: money was taken once.',
      truncated: false,
      rows: [{ idempotencyKey: 'c9-create' }, { idempotencyKey: 'c9-confirm' }],
    });
    expect(said.stdout).not.toContain(key.slice(-64));
  });

  it.each([[[]], [['--key', 'nonsense']], [['--period', '2026-13']]])(
    'refuses %j, which says nothing to look for',
    async (args) => {
      expect((await run('log', ...args)).code).toBe(EXIT.usage);
    },
  );
});

describe('chargeonce vault keys', () => {
  it('lists, raises with a reason, and revokes; a raise that raises nothing is bad input', async () => {
    const { id, key } = await makeKey(1_000);
    const why = ['--reason', 'late customers', '--operator', 'ada'];
    const raise = (to: string) => run('keys', 'raise', id, '--currency', 'usd', '--to', to, ...why);
    expect((await raise('1000')).code).toBe(EXIT.usage);
    const raised = await raise('2000');
    expect([raised.code, raised.stdout]).toEqual([EXIT.ok, expect.stringContaining('20.00 USD')]);
    expect((await run('keys', 'revoke', id, ...why)).stdout).toContain('revoked');
    const listed = await run('keys', 'list');
    expect(listed.stdout).toContain(id);
    expect(listed.stdout).not.toContain(key.slice(-64));
    const { rows } = await sql`
      SELECT actor, action, reason FROM vault_key_changes WHERE key_id = ${id} ORDER BY id OFFSET 1`.execute(
      engine.db,
    );
    expect(rows).toEqual([
      { actor: 'ada', action: 'cap_raised', reason: 'late customers' },
      { actor: 'ada', action: 'revoked', reason: 'late customers' },
    ]);
  });

  it('finds the key of a run by its period', async () => {
    const run1 = await engine.plan([{ id: 'cli', amountMinor: 2_000 }]);
    await fetch(new URL(`/vault/runs/base/${run1.period}`, addresses.adminUrl), {
      method: 'PUT',
      headers: { authorization: `Bearer ${RUN_TOKEN}` },
    });
    const why = ['--currency', 'usd', '--to', '5000', '--reason', 'a test', '--json'];
    expect((await run('keys', 'raise', run1.period, ...why)).json()).toMatchObject({
      namespace: 'base',
      billing_period: run1.period,
      caps: [{ cap: 5_000, expected: 2_000 }],
    });
    const unknown = await run('keys', 'show', '2019-01');
    expect(unknown.code).toBe(EXIT.usage);
    expect(unknown.stderr).toContain('has no key yet');
  });

  it('needs nothing configured for the vault of its home: token and port lie there', async () => {
    const home = await mkdtemp(path.join(tmpdir(), 'chargeonce-vault-'));
    const list = (env: Record<string, string> = {}) =>
      runInProcess(registerVault, ['vault', 'keys', 'list', '--json'], {
        CHARGEONCE_HOME: home,
        ...env,
      });
    try {
      expect((await list()).stderr).toContain('VAULT_ADMIN_TOKEN is not set');
      const tokens = { runToken: RUN_TOKEN, adminToken: ADMIN_TOKEN };
      await mkdir(path.join(home, 'vault'));
      await writeFile(path.join(home, 'vault', 'tokens.json'), JSON.stringify(tokens));
      const ports = { vaultSecond: Number(new URL(addresses.adminUrl).port) };
      await writeFile(path.join(home, 'ports.json'), JSON.stringify(ports));
      expect((await list()).json()).toEqual({ keys: expect.any(Array) });
      // Another address is not told the home's token.
      const elsewhere = await list({ VAULT_ADMIN_URL: addresses.adminUrl });
      expect(elsewhere.stderr).toContain('VAULT_ADMIN_TOKEN is not set');
    } finally {
      await rm(home, { recursive: true });
    }
  });

  it('says what is wrong when the vault is away, or the token is another one', async () => {
    const list = (env: Record<string, string>) =>
      runInProcess(registerVault, ['vault', 'keys', 'list'], env);
    const away = await list({
      VAULT_ADMIN_URL: 'http://127.0.0.1:9',
      VAULT_ADMIN_TOKEN: ADMIN_TOKEN,
    });
    expect([away.code, away.stderr]).toEqual([
      EXIT.unavailable,
      expect.stringContaining('cannot be reached'),
    ]);
    const other = `vat_${'9'.repeat(64)}`;
    const wrong = await list({
      VAULT_ADMIN_URL: addresses.adminUrl,
      VAULT_ADMIN_TOKEN: other,
    });
    expect(wrong.code).toBe(EXIT.usage);
    expect(wrong.stderr).toContain('VAULT_ADMIN_TOKEN');
    expect(wrong.stderr).not.toContain(other);
  });
});

describe('chargeonce vault sweep and drift', () => {
  it('settle what a lost confirm had done, and find the sums agreeing', async () => {
    const { key, id } = await makeKey(10_000);
    const created = await post('/v1/payment_intents', createForm(800), { key, once: `${id}-1` });
    network = 'forwardThenClose';
    const confirm = `/v1/payment_intents/${created.id}/confirm`;
    await post(confirm, { off_session: 'true' }, { key, once: `${id}-2` });
    network = 'forward';
    const swept = z.object({ spent: z.int() }).parse((await run('sweep', '--json')).json());
    expect(swept.spent).toBeGreaterThanOrEqual(1);
    expect(await answer('--key', id)).toMatch(/it succeeded: money was taken once\.$/);
    const drift = await run('drift', '--json');
    expect([drift.code, drift.json()]).toEqual([
      EXIT.ok,
      expect.objectContaining({ drifts: false, differing: [] }),
    ]);
  });

  it('exit 1 and show the sums when somebody has changed a count', async () => {
    const { key, id } = await makeKey(10_000);
    await post('/v1/payment_intents', createForm(800), { key, once: `${id}-1` });
    const set = (minor: number) =>
      sql`UPDATE vault_windows SET used_minor = used_minor + ${minor} WHERE key_id = ${id}`.execute(
        engine.db,
      );
    await set(1);
    try {
      const drift = await run('drift');
      expect([drift.code, drift.stdout]).toEqual([EXIT.failed, expect.stringContaining(id)]);
    } finally {
      await set(-1);
    }
  });

  it('the vault ends with Ctrl-C, cleanly', async () => {
    command.kill('SIGINT');
    expect((await command.ended).code).toBe(EXIT.ok);
  });
});
