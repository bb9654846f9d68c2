import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { TestWorkflowEnvironment } from '@temporalio/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { hashApiToken, newApiToken } from '../../src/api-token.ts';
import { insertApiToken } from '../../src/db/api-tokens.ts';
import { Secret } from '../../src/secret.ts';
import { startServer, type RunningServer } from '../../src/server.ts';
import { chargesOf, insertCustomers, runRef, TEST_KEY } from '../support/engine.ts';
import { openEvents } from '../support/event-reader.ts';
import { startQuietDevServer, startStack, type Stack } from '../support/stack.ts';
import { keepingLog } from '../support/webhooks.ts';

const SERVERS = 3;
const CUSTOMERS = ['r1', 'r2', 'r3'];
const QUOTA = 2_000;
const answerSchema = z.looseObject({ result: z.string().optional(), code: z.string().optional() });

const listSchema = z.object({
  data: z.array(z.looseObject({ period: z.string() })),
  next: z.string().nullable(),
});

let env: TestWorkflowEnvironment;
let stack: Stack;
let token: string;
const servers: RunningServer[] = [];
const kept = keepingLog();
/** The customers of this run stand still until they are let go on. */
const HELD = '2026-04';
const held = Promise.withResolvers<void>();

beforeAll(async () => {
  env = await startQuietDevServer();
  stack = await startStack(env, { workers: 0 });
  await stack.addWorker({
    crashPoint: async (at, slot) => {
      if (at === 'beforeCreateSent' && slot?.period === HELD) await held.promise;
    },
  });
  token = newApiToken().token;
  await insertApiToken(stack.db, {
    tokenId: token.split('_')[1] ?? '',
    secretHash: hashApiToken(token),
    name: 'olga',
    role: 'operator',
    lifeDays: 1,
    operator: 'test',
  });
  for (let i = 0; i < SERVERS; i += 1) servers.push(await addServer());
});
afterAll(async () => {
  await Promise.all(servers.map((server) => server.shutdown()));
  await stack.close();
  await env.teardown();
});

function addServer(): Promise<RunningServer> {
  return startServer({
    databaseUrl: new Secret(stack.databaseUrl),
    temporal: { connection: { address: env.address }, namespace: 'default' },
    stripe: { apiKey: new Secret(TEST_KEY), apiBase: stack.simulator.url, timeoutMs: 5_000 },
    mode: 'test',
    webhookSecrets: [],
    api: {
      zone: 'UTC',
      resolveApprovers: 1,
      vaultAdmin: null,
      temporalUiUrl: 'http://ui.test',
      limits: { requestsPerMinute: QUOTA },
    },
    host: '127.0.0.1',
    port: 0,
    log: kept.log,
  });
}

interface Sent {
  readonly status: number;
  readonly replayed: boolean;
  readonly headers: Headers;
  readonly body: z.infer<typeof answerSchema>;
}

async function send(
  line: string,
  order: { readonly body?: object; readonly key?: string; readonly at?: number } = {},
): Promise<Sent> {
  const [method = '', path = ''] = line.split(' ');
  const { body, key = randomUUID(), at = 0 } = order;
  const answer = await fetch(new URL(path, servers[at % SERVERS]?.url), {
    method,
    headers: {
      authorization: `Bearer ${token}`,
      ...(body === undefined ? {} : { 'content-type': 'application/json', 'idempotency-key': key }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  return {
    status: answer.status,
    replayed: answer.headers.get('idempotent-replayed') === 'true',
    headers: answer.headers,
    body: answerSchema.parse(await answer.json()),
  };
}

/** As a client does it: the same again while the first is under way. */
async function sendUntilAnswered(line: string, order: Parameters<typeof send>[1]): Promise<Sent> {
  for (;;) {
    const sent = await send(line, order);
    if (sent.body.code !== 'idempotency-key-in-use') return sent;
    expect(sent.headers.get('retry-after')).toBe('1');
    await sleep(20);
  }
}

const untilState = (period: string, state: string) =>
  expect.poll(async () => (await send(`GET /v1/runs/${period}`)).body['state']).toBe(state);

const auditOf = (period: string) =>
  stack.db
    .selectFrom('audit_log')
    .select(['actor', 'action', 'reason'])
    .where('period', '=', period)
    .orderBy('id')
    .execute();

describe('POST /v1/runs', () => {
  it('refuses where there is nobody to bill, and keeps the refusal for its key', async () => {
    const order = { body: { period: '2026-01' }, key: 'nobody' };
    const first = await send('POST /v1/runs', order);
    expect(first).toMatchObject({ status: 409, body: { code: 'no-customers' } });
    await insertCustomers(
      stack.db,
      CUSTOMERS.map((id) => ({ id })),
    );
    expect(await send('POST /v1/runs', order)).toMatchObject({ status: 409, replayed: true });
  });

  it('starts one run when a trigger is sent to every replica at once under one key', async () => {
    const order = { body: { period: '2026-02', reason: 'monthly bill' }, key: 'trigger-2026-02' };
    const sent = await Promise.all(
      Array.from({ length: 4 * SERVERS }, (_, at) =>
        sendUntilAnswered('POST /v1/runs', { ...order, at }),
      ),
    );
    expect(sent.filter(({ replayed }) => !replayed)).toHaveLength(1);
    for (const { status, headers, body } of sent) {
      expect(status).toBe(202);
      expect(headers.get('location')).toBe('/v1/runs/2026-02');
      expect(body).toEqual({
        period: '2026-02',
        namespace: 'base',
        workflow_id: 'billing-2026-02',
        result: 'started',
        workflow_url: 'http://ui.test/namespaces/default/workflows/billing-2026-02',
      });
    }
    await untilState('2026-02', 'completed');
    for (const id of CUSTOMERS) expect(chargesOf(stack.simulator, id)).toBe(1);
    expect(await auditOf('2026-02')).toEqual(
      expect.arrayContaining([
        { actor: 'olga', action: 'run.start_ordered', reason: 'monthly bill' },
        { actor: 'olga', action: 'run.planned', reason: null },
      ]),
    );
  });

  it('starts one run when the replicas are triggered under different keys', async () => {
    const sent = await Promise.all(
      servers.map((_, at) => send('POST /v1/runs', { body: { period: '2026-03' }, at })),
    );
    const results = sent.map(({ body }) => body.result ?? body.code);
    expect(results.filter((result) => result === 'started')).toHaveLength(1);
    expect(results.every((one) => one === 'started' || one === 'already_running')).toBe(true);
    await untilState('2026-03', 'completed');
    const again = await send('POST /v1/runs', { body: { period: '2026-03' } });
    expect(again).toMatchObject({ status: 202, body: { result: 'completed_before' } });
    for (const id of CUSTOMERS) expect(chargesOf(stack.simulator, id)).toBe(2);
  });

  it('answers 422 for another period under the same key, and for the same key on another route', async () => {
    const key = 'one-action';
    await send('POST /v1/runs', { body: { period: '2026-02' }, key });
    const other = await send('POST /v1/runs', { body: { period: '2027-12' }, key, at: 1 });
    expect(other).toMatchObject({ status: 422, body: { code: 'idempotency-key-reused' } });
    const route = await send('POST /v1/runs/2026-02/stop', { body: { reason: 'x' }, key, at: 2 });
    expect(route).toMatchObject({ status: 422, body: { code: 'idempotency-key-reused' } });
    expect(await send('GET /v1/runs/2027-12')).toMatchObject({ status: 404 });
  });

  it('uses no quota for stored responses', async () => {
    const order = { body: { period: '2026-02' }, key: 'quota' };
    const remaining = ({ headers }: Sent) => Number(headers.get('ratelimit-remaining'));
    const first = await send('POST /v1/runs', order);
    for (let i = 0; i < 5; i += 1) expect((await send('POST /v1/runs', order)).replayed).toBe(true);
    const next = await send('GET /v1/me');
    expect(remaining(first) - remaining(next)).toBe(1);
  });
});

describe('a run under way', () => {
  const at = '/v1/runs/2026-04';

  it('is paused, resumed and stopped, each with who and why, and goes on only when that is said', async () => {
    const { client } = stack;
    await send('POST /v1/runs', { body: { period: '2026-04' } });
    await untilState('2026-04', 'charging');
    const reader = await openEvents(servers[1]?.url ?? '', `${at}/events`, token);
    const paused = await send(`POST ${at}/pause`, { body: { reason: 'wrong prices' }, key: 'p1' });
    expect(paused).toMatchObject({ status: 200, body: { order: 'pause', charges_to_fire: null } });
    expect((await send(`GET ${at}`)).body).toMatchObject({
      control: 'paused',
      note: 'paused by olga: wrong prices',
      pollers: true,
      workflow_id: 'billing-2026-04',
    });
    expect(
      await send(`POST ${at}/pause`, { body: { reason: 'wrong prices' }, key: 'p1', at: 1 }),
    ).toMatchObject({ status: 200, replayed: true });
    const resumed = await send(`POST ${at}/resume`, { body: { reason: 'mended' } });
    expect(resumed.status).toBe(200);
    expect(resumed.body['charges_to_fire']).toBeTypeOf('number');
    const stopped = await send(`POST ${at}/stop`, { body: { reason: 'after all not' } });
    expect(stopped.status).toBe(200);
    held.resolve();
    await untilState('2026-04', 'stopped');
    expect((await auditOf('2026-04')).filter(({ action }) => action !== 'slot.charged')).toEqual(
      expect.arrayContaining([
        { actor: 'olga', action: 'run.paused', reason: 'wrong prices' },
        { actor: 'olga', action: 'run.resumed', reason: 'mended' },
        { actor: 'olga', action: 'run.stop_ordered', reason: 'after all not' },
      ]),
    );
    let last = await reader.next();
    for (let next = last; next !== null; next = await reader.next()) last = next;
    expect(last).toEqual({ event: 'end', data: {} });

    await client
      .run(runRef('2026-04'))
      .result()
      .catch(() => {});
    const refused = await send('POST /v1/runs', { body: { period: '2026-04' } });
    expect(refused).toMatchObject({ status: 409, body: { code: 'run-stopped', state: 'stopped' } });
    const silent = { period: '2026-04', go_on_after_stop: true };
    expect(await send('POST /v1/runs', { body: silent })).toMatchObject({ status: 400 });
    const goesOn = await send('POST /v1/runs', { body: { ...silent, reason: 'right prices' } });
    expect(goesOn).toMatchObject({ status: 202, body: { result: 'started' } });
    await untilState('2026-04', 'completed');
  });
});

describe('orders that come to nothing', () => {
  it('are 404 for a run that nobody knows, and 409 with its state for one that is over', async () => {
    for (const order of ['pause', 'resume', 'stop']) {
      const unknown = await send(`POST /v1/runs/2031-05/${order}`, { body: { reason: 'x' } });
      expect(unknown).toMatchObject({ status: 404, body: { code: 'run-unknown' } });
      const over = await send(`POST /v1/runs/2026-02/${order}`, { body: { reason: 'x' } });
      expect(over).toMatchObject({
        status: 409,
        body: { code: 'run-not-under-way', state: 'completed' },
      });
    }
    const why = await send('POST /v1/runs/2026-02/stop', { body: {} });
    expect(why).toMatchObject({ status: 400, body: { code: 'parameter-invalid' } });
  });
});

describe('/readyz', () => {
  it('says that database and Temporal answer, to anybody and nothing else', async () => {
    const answer = await fetch(`${servers[0]?.url ?? ''}/readyz`);
    expect(answer.status).toBe(200);
    expect(await answer.json()).toEqual({ ok: true, database: 'ok', temporal: 'ok' });
  });
});

describe('GET /v1/runs', () => {
  it('shows runs, the one planned last first, page by page', async () => {
    const seen: unknown[] = [];
    let after = '';
    do {
      const { body } = await send(`GET /v1/runs?limit=1${after}`);
      const { data, next } = listSchema.parse(body);
      seen.push(...data.map(({ period }) => period));
      after = next === null ? '' : `&after=${next}`;
    } while (after !== '');
    expect(seen).toEqual(['2026-04', '2026-03', '2026-02']);
    const none = await send('GET /v1/runs?namespace=overage');
    expect(none.body).toEqual({ data: [], next: null });
  });

  it('shows one run with its money and its reasons', async () => {
    expect((await send('GET /v1/runs/2026-02')).body).toMatchObject({
      state: 'completed',
      customers: 3,
      counts: { charged: 3, declined: 0, indeterminate: 0 },
      charged: { usd: 4500 },
      expected: { usd: 4500 },
      reasons: [],
    });
  });
});
