import { once } from 'node:events';
import net from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { RunClient } from '../../src/client.ts';
import { startEngine, type Engine } from '../support/engine.ts';
import { startQuietDevServer } from '../support/stack.ts';
import {
  ADA,
  OLGA,
  PAUL,
  startOperatorApi,
  VERA,
  type OperatorApi,
  type Request,
} from '../support/operator-api.ts';

/** Of the form of a cursor of runs, with what no text of the database may have. */
const NUL_CURSOR = Buffer.from('[1,"\\u0000","2026-11"]').toString('base64url');
const problemSchema = z.object({ code: z.string() });

let engine: Engine;
let api: OperatorApi;
const started: OperatorApi[] = [];

beforeAll(async () => {
  engine = await startEngine();
  api = await start();
});
afterAll(async () => {
  for (const one of started) await one.close();
  await engine.close();
});

async function start(parts: Parameters<typeof startOperatorApi>[1] = {}): Promise<OperatorApi> {
  const one = await startOperatorApi(engine.db, { account: engine.deps.account, ...parts });
  started.push(one);
  return one;
}

/** A POST whose body is not complete: it is under way until the rest is sent. */
async function halfSent(from: OperatorApi): Promise<{ finish(): Promise<string> }> {
  const { hostname, port } = new URL(from.url);
  const socket = net.connect(Number(port), hostname).setEncoding('utf8');
  await once(socket, 'connect');
  let text = '';
  socket.on('data', (chunk: string) => {
    text += chunk;
  });
  const body = JSON.stringify({ period: '2026-99' });
  socket.write(
    `POST /v1/runs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${await from.tokenOf(ADA)}\r\n` +
      `Idempotency-Key: half\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body.slice(0, 5)}`,
  );
  return {
    async finish() {
      // Not ended: whoever hangs up is not answered.
      socket.write(body.slice(5));
      await expect.poll(() => text).toMatch(/\r\n\r\n.*\}$/s);
      socket.destroy();
      return text;
    },
  };
}

describe('a request that cannot be', () => {
  it('is told each field that is wrong, and uses up no key', async () => {
    const key = 'once-more';
    const bad = { period: '2026-13', namespace: 'Base!', extra: 1 };
    const refused = await api.call('POST', '/v1/runs', { body: bad, key });
    expect(refused.status).toBe(400);
    expect(refused.headers.get('content-type')).toMatch(/^application\/problem\+json/);
    expect(refused.body).toMatchObject({
      type: '/problems#parameter-invalid',
      status: 400,
      code: 'parameter-invalid',
      errors: [
        { in: 'body', field: 'period' },
        { in: 'body', field: 'namespace' },
        { in: 'body', field: 'extra' },
      ],
    });
    // Another body under the same key: the first one left nothing behind.
    const again = await api.call('POST', '/v1/runs', { body: { period: '2026-11' }, key });
    expect(again.body).toMatchObject({ code: 'temporal-unavailable' });
    expect(again.headers.get('idempotent-replayed')).toBeNull();
  });

  it.each<{ readonly what: string; readonly line: string; readonly request?: Request }>([
    { what: 'path-invalid 400', line: 'GET /v1/runs/2026-13' },
    { what: 'path-invalid 400', line: 'GET /v1/runs/%' },
    { what: 'path-invalid 400', line: `GET /v1/runs/${'9'.repeat(201)}` },
    { what: 'parameter-invalid 400', line: 'GET /v1/runs?limit=0' },
    { what: 'parameter-invalid 400', line: 'GET /v1/runs?after=bm9uc2Vuc2U' },
    { what: 'parameter-invalid 400', line: `GET /v1/runs?after=${NUL_CURSOR}` },
    { what: 'parameter-invalid 400', line: 'GET /v1/runs?colour=red' },
    { what: 'parameter-invalid 400', line: 'GET /v1/me?colour=red' },
    {
      // Passed over, it would start the run of another namespace.
      what: 'parameter-invalid 400',
      line: 'POST /v1/runs?namespace=overage',
      request: { body: { period: '2026-11' } },
    },
    {
      what: 'parameter-invalid 400',
      line: 'POST /v1/runs/2026-11/stop',
      request: { body: { reason: 'half \ud800' } },
    },
    { what: 'body-unreadable 400', line: 'POST /v1/runs' },
    { what: 'path-unknown 404', line: 'GET /v1/walks' },
    { what: 'path-unknown 404', line: 'POST /v1/walks', request: { body: {} } },
    { what: 'method-unknown 405', line: 'PATCH /v1/runs', request: { body: {} } },
    {
      what: 'body-unreadable 400',
      line: 'POST /v1/runs',
      request: { raw: { type: 'application/json', bytes: '{' } },
    },
    {
      what: 'content-type-unsupported 415',
      line: 'POST /v1/runs',
      request: { raw: { type: 'text/plain', bytes: 'x' } },
    },
    {
      what: 'idempotency-key-malformed 400',
      line: 'POST /v1/runs',
      request: { body: {}, key: '"half' },
    },
    {
      what: 'request-too-large 413',
      line: 'POST /v1/runs',
      request: { raw: { type: 'application/json', bytes: `"${'x'.repeat(1024 * 1024)}"` } },
    },
  ])('is $what: $line', async ({ what, line, request }) => {
    const [method = '', path = ''] = line.split(' ');
    const { status, body } = await api.call(method, path, request);
    const { code } = problemSchema.parse(body);
    expect(`${code} ${status}`).toBe(what);
  });

  it('is told which methods a route has', async () => {
    const answer = await api.call('DELETE', '/v1/runs', { body: {} });
    expect(answer.headers.get('allow')).toBe('GET, HEAD, POST');
  });

  it('needs a key where something is changed', async () => {
    const answer = await fetch(`${api.url}/v1/runs`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${await api.tokenOf(OLGA)}`,
        'content-type': 'application/json',
      },
      body: JSON.stringify({ period: '2026-11' }),
    });
    expect(answer.status).toBe(400);
    expect(answer.headers.get('link')).toBe('</idempotency>; rel="describedby"');
    expect(await answer.json()).toMatchObject({ code: 'idempotency-key-missing' });
  });

  it('says nothing of what failed inside', async () => {
    const broken = await start({
      temporal: () => Promise.reject(new Error('dial tcp 10.1.2.3: secret-host')),
    });
    const answer = await broken.call('GET', '/v1/runs/2031-01');
    expect(answer.status).toBe(503);
    expect(JSON.stringify(answer.body)).not.toContain('secret-host');
    const order = await broken.call('POST', '/v1/runs/2031-01/stop', { body: { reason: 'x' } });
    expect(order).toMatchObject({ status: 503, body: { code: 'temporal-unavailable' } });
    expect(order.headers.get('retry-after')).toBe('5');
    expect(JSON.stringify(order.body)).not.toContain('secret-host');
  });
});

describe('without a worker', () => {
  it('a run is started and waits, which it says, and orders to it are refused and use up no key', async () => {
    const env = await startQuietDevServer();
    const client = await RunClient.connect({
      connection: { address: env.address },
      namespace: 'default',
    });
    const own = await start({ temporal: async () => client });
    await engine.db
      .insertInto('customers')
      .values({ customer_id: 'w1', stripe_customer_id: 'cus_w1', amount_minor: 1, currency: 'usd' })
      .execute();
    const begun = await own.call('POST', '/v1/runs', { body: { period: '2026-11' } });
    expect(begun).toMatchObject({ status: 202, body: { result: 'started' } });
    const location = begun.headers.get('location') ?? '';
    expect(await own.call('GET', location)).toMatchObject({
      status: 200,
      body: { state: 'planning', pollers: false, customers: 0, planned_at: null },
    });
    const order = { body: { reason: 'wrong prices' }, key: 'stop-it' };
    for (let i = 0; i < 2; i += 1) {
      const refused = await own.call('POST', `${location}/stop`, order);
      expect(refused).toMatchObject({ status: 503, body: { code: 'no-worker' } });
      expect(refused.headers.get('idempotent-replayed')).toBeNull();
    }
    await client.close();
    await env.teardown();
  });
});

describe('the limits', () => {
  it('give each name a quota of its own', async () => {
    const own = await start({ limits: { requestsPerMinute: 4 } });
    const asVera = () => own.call('GET', '/v1/me', { as: VERA });
    for (let i = 0; i < 4; i += 1) expect((await asVera()).status).toBe(200);
    const refused = await asVera();
    expect(refused).toMatchObject({ status: 429, body: { code: 'quota-exceeded' } });
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
    expect((await own.call('GET', '/v1/me', { as: PAUL })).status).toBe(200);
  });

  it('refuse what comes while as many requests are under way as may be', async () => {
    const own = await start({ limits: { concurrentRequests: 1 } });
    const first = await halfSent(own);
    await expect
      .poll(async () => (await own.call('GET', '/v1/me')).status, { timeout: 40_000 })
      .toBe(503);
    expect(await own.call('GET', '/v1/me')).toMatchObject({
      status: 503,
      body: { code: 'server-busy' },
    });
    expect(await first.finish()).toMatch(/^HTTP\/1\.1 400 /);
    await expect.poll(async () => (await own.call('GET', '/v1/me')).status).toBe(200);
  });
});

describe('the process', () => {
  it('answers what is under way when it is told to end', async () => {
    const own = await startOperatorApi(engine.db, { account: engine.deps.account });
    const half = await halfSent(own);
    // Only a request that has arrived is under way.
    await own.call('GET', '/v1/me');
    const closed = own.close();
    expect(await half.finish()).toMatch(/^HTTP\/1\.1 400 [\s\S]*parameter-invalid/);
    await closed;
  });

  it('counts requests by route, never by path, and what became of keys', async () => {
    const own = await start();
    await own.call('GET', '/v1/runs/2026-11');
    await own.call('GET', '/v1/nothing/at/all');
    await own.call('POST', '/v1/runs', { body: { period: '2026-11' }, key: 'kk' });
    const { body, headers } = await own.call('GET', '/metrics', { as: VERA });
    expect(headers.get('content-type')).toMatch(/^text\/plain/);
    const text = String(body);
    expect(text).toContain(
      'chargeonce_http_requests_total{method="GET",route="/v1/runs/:period",status="503"} 1',
    );
    expect(text).toContain(
      'chargeonce_http_requests_total{method="any",route="unknown",status="404"} 1',
    );
    expect(text).toContain('chargeonce_http_idempotency_total{event="executed"} 1');
    expect(text).toContain('chargeonce_http_idempotency_total{event="abandoned"} 1');
    expect(text).toContain('chargeonce_http_request_seconds_bucket');
    expect(text).not.toContain('2026-11');
  });
});
