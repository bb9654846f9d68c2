import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { checkRoute } from '../../src/http/idempotency/route-rules.ts';
import { call } from '../support/http-client.ts';
import {
  idempotentApp,
  newKey,
  postgresStore,
  type IdempotentApp,
} from '../support/idempotent-app.ts';
import { exampleRoutes, STORED_BYTES } from '../support/idempotent-routes.ts';

let database: Awaited<ReturnType<typeof postgresStore>>;
let app: IdempotentApp;
let runs = 0;
/** connections that the application has open */
const sockets = new Set<Socket>();
/** what a handler waits for, and how the test lets it go on */
let gate = Promise.withResolvers<void>();

beforeAll(async () => {
  database = await postgresStore();
  app = await idempotentApp(
    database.store,
    (server) => exampleRoutes(server, { ran: () => (runs += 1), opened: () => gate.promise }),
    { maxStoredBytes: STORED_BYTES },
  );
  app.app.server.on('connection', (socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
  });
});
afterAll(async () => {
  await app.close();
  await database.close();
});

const rowOf = async (key: string) => {
  const { rows } = await database.pool.query<Record<string, unknown>>(
    'SELECT * FROM idempotency_records WHERE idempotency_key = $1',
    [key],
  );
  return rows[0];
};
const until = async (condition: () => Promise<boolean> | boolean) => {
  while (!(await condition())) await sleep(5);
};

/** Sends it twice, and expects one run and one answer. */
async function twice(path: string, key = newKey()) {
  const before = runs;
  const first = await app.send(path, key);
  const second = await app.send(path, key);
  expect(runs).toBe(before + 1);
  expect(second.status).toBe(first.status);
  expect(second.headers['idempotent-replayed']).toBe('true');
  expect(first.headers['idempotent-replayed']).toBeUndefined();
  return { first, second };
}

describe('a repeated key', () => {
  it('M6: gives status, Location and body byte for byte, and runs nothing', async () => {
    const { first, second } = await twice('/charges');
    expect(first.status).toBe(201);
    expect(second.bytes).toEqual(first.bytes);
    expect(second.headers['location']).toBe('/charges/1');
    expect(second.headers['content-type']).toBe(first.headers['content-type']);
    expect(first.headers['set-cookie']).toHaveLength(1);
    expect(second.headers['set-cookie']).toBeUndefined();
    expect(second.headers['x-secret']).toBeUndefined();
  });

  it('is the same one quoted and bare', async () => {
    const key = newKey();
    const first = await app.send('/charges', key);
    const second = await app.send('/charges', `"${key}"`);
    expect(second.bytes).toEqual(first.bytes);
    expect(second.headers['idempotent-replayed']).toBe('true');
  });

  it('M7: gives a 503 with its Retry-After again as it was', async () => {
    const { second } = await twice('/away');
    expect(second.status).toBe(503);
    expect(second.headers['retry-after']).toBe('7');
  });

  it('M8, M9: gives the 500 of a handler that threw again, labelled FAILED, and does not run it again', async () => {
    const key = newKey();
    const { first, second } = await twice('/throws', key);
    expect(first.status).toBe(500);
    expect(second.bytes).toEqual(first.bytes);
    expect(await rowOf(key)).toMatchObject({ state: 'FAILED', status: 500 });
  });

  it('M15h: gives a 402 again, and a new key runs', async () => {
    const { second } = await twice('/refuses');
    expect(second.status).toBe(402);
    const before = runs;
    expect((await app.send('/refuses', newKey())).status).toBe(402);
    expect(runs).toBe(before + 1);
  });

  it.each(['/nothing', '/stream', '/response', '/raw', '/raw-later'])(
    'M10: gives what came by %s again',
    async (path) => {
      const key = newKey();
      const before = runs;
      const first = await app.send(path, key);
      await until(async () => (await rowOf(key))?.['state'] === 'COMPLETED');
      const second = await app.send(path, key);
      expect(runs).toBe(before + 1);
      expect(second.status).toBe(first.status);
      expect(second.bytes).toEqual(first.bytes);
      expect(second.headers['location']).toBe(first.headers['location']);
      expect(second.headers['content-type']).toBe(first.headers['content-type']);
      expect(second.headers['idempotent-replayed']).toBe('true');
    },
  );

  it('gives an answer that broke off in its stream as a 500, both times', async () => {
    const { first, second } = await twice('/broken-stream');
    expect(first.status).toBe(500);
    expect(second.bytes).toEqual(first.bytes);
  });

  it('M16: delivers what is over the cap, and says of it afterwards that its body was omitted', async () => {
    const { first, second } = await twice('/big');
    expect(first.bytes.length).toBeGreaterThan(STORED_BYTES);
    expect(second.headers['location']).toBe('/big/1');
    expect(second.headers['content-type']).toContain('application/problem+json');
    expect(second.json()).toMatchObject({ status: 201, code: 'body-omitted' });
    const stream = await twice('/big-stream');
    expect(stream.first.text).toBe('a'.repeat(STORED_BYTES) + 'b'.repeat(STORED_BYTES));
    expect(stream.second.json()).toMatchObject({ status: 200, code: 'body-omitted' });
  });

  it('never keeps the body of a route that says that it is a secret', async () => {
    const key = newKey();
    const { first, second } = await twice('/secret', key);
    expect(first.text).toContain('secret');
    expect(second.json()).toMatchObject({ status: 201, code: 'body-omitted' });
    expect(await rowOf(key)).toMatchObject({ body: null });
    const refused = await twice('/secret-refused');
    expect(refused.second.bytes).toEqual(refused.first.bytes);
  });
});

describe('another request under a used key', () => {
  it.each([
    ['M1: another query', '/charges?to=mallory', {}],
    ['M2: a query where there was none', '/charges?dry=1', {}],
    ['M4: other bytes of the same JSON', '/charges', { body: '{"b":2,"a":1}' }],
    ['another content type', '/charges', { headers: { 'content-type': 'application/json; x=1' } }],
    ['M5: another route', '/other', {}],
    ['another method', '/charges', { method: 'PUT' }],
  ])('%s is refused with 422, and runs nothing', async (_what, path, options) => {
    const key = newKey();
    await app.send('/charges', key, { body: '{"a":1,"b":2}' });
    const before = runs;
    const answer = await app.send(path, key, { body: '{"a":1,"b":2}', ...options });
    expect(answer.status).toBe(422);
    expect(answer.headers['content-type']).toContain('application/problem+json');
    expect(answer.headers['link']).toBe('<https://example.test/idempotency>; rel="describedby"');
    expect(answer.json()).toMatchObject({ status: 422, code: 'idempotency-key-reused' });
    expect(runs).toBe(before);
  });

  it('of another tenant is another key', async () => {
    const key = newKey();
    const before = runs;
    await app.send('/charges', key, { headers: { 'x-tenant': 'one' } });
    const other = await app.send('/charges', key, { headers: { 'x-tenant': 'two' } });
    expect(other.headers['idempotent-replayed']).toBeUndefined();
    expect(runs).toBe(before + 2);
  });
});

describe('a key that is in flight', () => {
  it('answers 409 with Retry-After to the same request and 422 to another, and the first is not disturbed', async () => {
    gate = Promise.withResolvers();
    const key = newKey();
    const before = runs;
    const first = app.send('/slow', key);
    await until(() => runs === before + 1);
    const same = await app.send('/slow', key);
    expect(same.status).toBe(409);
    expect(same.headers['retry-after']).toBe('1');
    expect(same.json()).toMatchObject({ code: 'idempotency-key-in-use' });
    expect((await app.send('/slow', key, { body: '{"other":1}' })).status).toBe(422);
    gate.resolve();
    expect((await first).json()).toEqual({ run: before + 1 });
    expect((await app.send('/slow', key)).bytes).toEqual((await first).bytes);
    expect(runs).toBe(before + 1);
  });

  it('is answered although its row is locked by somebody', async () => {
    gate = Promise.withResolvers();
    const key = newKey();
    const before = runs;
    const first = app.send('/slow', key);
    await until(() => runs === before + 1);
    const locker = await database.pool.connect();
    await locker.query('BEGIN');
    await locker.query('SELECT 1 FROM idempotency_records WHERE idempotency_key = $1 FOR UPDATE', [
      key,
    ]);
    expect((await app.send('/slow', key)).status).toBe(409);
    expect((await app.send('/slow', key, { body: '[]' })).status).toBe(422);
    await locker.query('ROLLBACK');
    locker.release();
    gate.resolve();
    expect((await first).status).toBe(200);
  });

  it.each(['/slow', '/undefined', '/callback'])(
    'of %s is stored although its client has gone',
    async (path) => {
      gate = Promise.withResolvers();
      const key = newKey();
      const before = runs;
      const going = new AbortController();
      const first = app.send(path, key, { signal: going.signal });
      await until(() => runs === before + 1);
      going.abort();
      await expect(first).rejects.toThrow('aborted');
      await until(() => sockets.size === 0);
      gate.resolve();
      await until(async () => (await rowOf(key))?.['state'] === 'COMPLETED');
      const second = await app.send(path, key);
      expect(second.status).toBe(path === '/callback' ? 201 : 200);
      expect(second.headers['idempotent-replayed']).toBe('true');
      expect(runs).toBe(before + 1);
    },
  );
});

describe('what needs a key', () => {
  it.each(['POST', 'PUT', 'PATCH', 'DELETE'])(
    '%s without one is refused with 400',
    async (method) => {
      const before = runs;
      const answer = await app.send('/charges', null, { method });
      expect(answer.status).toBe(400);
      expect(answer.json()).toMatchObject({
        type: 'https://example.test/idempotency#idempotency-key-missing',
        code: 'idempotency-key-missing',
      });
      expect(answer.headers['link']).toContain('rel="describedby"');
      expect(runs).toBe(before);
    },
  );

  it.each(['GET', 'HEAD', 'OPTIONS'])(
    '%s passes, with a key or without, and is never kept',
    async (method) => {
      const key = newKey();
      for (const sent of [null, key, key]) {
        const answer = await call(`${app.url}/charges`, {
          method,
          headers: sent === null ? {} : { 'idempotency-key': sent },
        });
        expect(answer.status).toBe(method === 'OPTIONS' ? 404 : 200);
        expect(answer.headers['idempotent-replayed']).toBeUndefined();
      }
      expect(await rowOf(key)).toBeUndefined();
    },
  );

  it.each([
    ['empty', ''],
    ['empty in quotes', '""'],
    ['doubled', ['a', 'b']],
    ['doubled with the same value', ['a', 'a']],
    ['256 characters', 'k'.repeat(256)],
    ['a list', '"a", "b"'],
    ['with a parameter', '"a"; b=1'],
    ['half a string', '"a'],
    ['not ASCII', 'schl\u00fcssel'],
  ])('a key that is %s is refused with 400', async (_what, key) => {
    const before = runs;
    const answer = await call(`${app.url}/charges`, {
      headers: { 'content-type': 'application/json', 'idempotency-key': key },
      body: '{}',
    });
    expect(answer.status).toBe(400);
    expect(answer.json()).toMatchObject({ code: 'idempotency-key-malformed' });
    expect(runs).toBe(before);
  });

  it('a route that opted out runs each time, and one with an optional key runs without', async () => {
    const before = runs;
    await app.send('/own', 'k1');
    await app.send('/own', 'k1');
    expect((await app.send('/optional', null)).json()).toMatchObject({ key: null });
    expect(runs).toBe(before + 3);
    const key = newKey();
    await app.send('/optional', key);
    expect((await app.send('/optional', key)).headers['idempotent-replayed']).toBe('true');
    expect(runs).toBe(before + 4);
  });
});

describe('what is never kept', () => {
  it.each([401, 429])('is a %i: the same key runs again', async (status) => {
    const key = newKey();
    const before = runs;
    expect((await app.send(`/status/${status}`, key)).status).toBe(status);
    expect(await rowOf(key)).toBeUndefined();
    await app.send(`/status/${status}`, key);
    expect(runs).toBe(before + 2);
  });

  it('is a 503 of a route that may run again: the same request does, and another one may not have the key', async () => {
    const key = newKey();
    const before = runs;
    expect((await app.send('/keyed', key)).status).toBe(503);
    expect((await app.send('/keyed', key, { body: '{"other":1}' })).status).toBe(422);
    const second = await app.send('/keyed', key);
    expect(second.json()).toEqual({ run: before + 2, takenOver: true });
    const third = await app.send('/keyed', key);
    expect(third.headers['idempotent-replayed']).toBe('true');
    expect(runs).toBe(before + 2);
  });

  it('cannot be asked for by a route that may not run again', () => {
    const config = { idempotency: { neverStored: [503] } };
    expect(() =>
      checkRoute({ method: 'POST', url: '/x', config, handler: async () => {} }),
    ).toThrow('POST /x: neverStored needs takeover "rerun"');
  });

  it('is a request that was refused before its handler ran', async () => {
    const key = newKey();
    expect((await app.send('/validated', key, { body: '{}' })).status).toBe(400);
    expect((await app.send('/validated', key, { body: 'no json' })).status).toBe(400);
    expect(await rowOf(key)).toBeUndefined();
    expect((await app.send('/validated', key, { body: '{"amount":1}' })).status).toBe(200);
  });
});

describe('a body', () => {
  it('over 1 MiB is refused with 413, and its key is free', async () => {
    const key = newKey();
    const body = JSON.stringify('x'.repeat(1024 * 1024));
    expect((await app.send('/charges', key, { body })).status).toBe(413);
    const headers = { 'content-type': 'application/octet-stream' };
    expect((await app.send('/charges', key, { body, headers })).status).toBe(413);
    expect(await rowOf(key)).toBeUndefined();
  });

  it.each([
    ['multipart', 'multipart/form-data; boundary=x'],
    ['streamed to its handler', 'text/csv'],
  ])('that is %s is refused with 415, since it cannot be compared', async (_what, type) => {
    const before = runs;
    const answer = await app.send('/charges', newKey(), {
      headers: { 'content-type': type },
      body: 'a,b',
    });
    expect(answer.status).toBe(415);
    expect(answer.json()).toMatchObject({ code: 'body-not-fingerprintable' });
    expect(runs).toBe(before);
  });

  it('that is empty is a body like any other', async () => {
    const key = newKey();
    const send = (body?: string) =>
      call(`${app.url}/charges`, {
        headers: { 'idempotency-key': key },
        ...(body === undefined ? {} : { body }),
      });
    expect((await send()).status).toBe(201);
    expect((await send()).headers['idempotent-replayed']).toBe('true');
    expect((await send('')).headers['idempotent-replayed']).toBe('true');
  });
});
