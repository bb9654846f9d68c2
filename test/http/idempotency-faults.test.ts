// oxlint-disable oxc/no-async-endpoint-handlers -- Fastify waits for its handlers
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import type { FastifyInstance } from 'fastify';
import { Pool } from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { PostgresIdempotencyStore } from '../../src/http/idempotency/index.ts';
import { Keeper } from '../../src/http/idempotency/keeper.ts';
import { settingsOf } from '../../src/http/idempotency/options.ts';
import { startPostgresProxy } from '../support/crash-pg-proxy.ts';
import type { HttpAnswer } from '../support/http-client.ts';
import {
  idempotentApp,
  newKey,
  postgresStore,
  type IdempotentApp,
} from '../support/idempotent-app.ts';
import { MemoryIdempotencyStore } from '../support/idempotent-memory-store.ts';
import { takeAway } from '../support/idempotent-outage.ts';

/** Short, so that a test sees several of them pass. */
const LEASE_MS = 1_000;

let database: Awaited<ReturnType<typeof postgresStore>>;
let app: IdempotentApp;
let runs = 0;
/** what a slow handler waits for */
let gate = Promise.withResolvers<void>();

function routes(server: FastifyInstance): void {
  const rerun = { config: { idempotency: { takeover: 'rerun' } } } as const;
  server.post('/quick', async (_request, reply) => reply.code(201).send({ run: (runs += 1) }));
  server.post('/slow', async (_request, reply) => {
    const run = (runs += 1);
    await gate.promise;
    return reply.code(201).send({ run });
  });
  server.post('/slow-rerun', rerun, async (_request, reply) => {
    const run = (runs += 1);
    await gate.promise;
    return reply.code(201).send({ run });
  });
  server.post('/later', async (_request, reply) => {
    const run = (runs += 1);
    void gate.promise.then(() => reply.code(201).send({ run }));
    return reply;
  });
  server.post('/forgetful', async (_request, reply) => {
    void reply.code(201).send({ run: (runs += 1) });
  });
}

beforeAll(async () => {
  database = await postgresStore();
  app = await idempotentApp(database.store, routes, { leaseMs: LEASE_MS });
});
afterAll(async () => {
  await app.close();
  await database.close();
});

async function until(condition: () => Promise<boolean> | boolean): Promise<void> {
  while (!(await condition())) await sleep(5);
}

/** Sends something to a slow route, and returns when its handler is at work. */
async function begin(path: string, key: string, signal?: AbortSignal) {
  gate = Promise.withResolvers();
  const before = runs;
  const first = app.send(path, key, signal === undefined ? {} : { signal });
  await until(() => runs > before);
  return { first };
}

/** Repeats until the key is no longer in flight. */
async function repeat(path: string, key: string, at = app): Promise<HttpAnswer> {
  for (;;) {
    const answer = await at.send(path, key);
    if (answer.status !== 409) return answer;
    await sleep(5);
  }
}

/** Waits for some leases to pass since the key was taken, and says whether it is held then. */
async function isHeldForLong(key: string): Promise<boolean> {
  for (;;) {
    const { rows } = await database.pool.query<{ readonly late: boolean; readonly held: boolean }>(
      `SELECT now() > created_at + 3 * $2::int * interval '1 millisecond' AS late, lease_until > now() AS held
       FROM idempotency_records WHERE idempotency_key = $1`,
      [key, LEASE_MS],
    );
    if (rows[0]?.late === true) return rows[0].held;
    await sleep(20);
  }
}

describe('a store that cannot be reached', () => {
  it('M15g: is a 503 for a claim: nothing runs, and the key is free when it is back', async () => {
    const key = newKey();
    const before = runs;
    const giveBack = await takeAway(database.url);
    const answer = await app.send('/quick', key);
    expect(answer.status).toBe(503);
    expect(answer.headers['retry-after']).toBe('2');
    expect(answer.headers['content-type']).toContain('application/problem+json');
    expect(answer.json()).toMatchObject({ status: 503, code: 'idempotency-store-unavailable' });
    expect(runs).toBe(before);
    await giveBack();
    expect((await app.send('/quick', key)).json()).toEqual({ run: before + 1 });
  });

  it.each(['/slow', '/slow-rerun'])(
    'M11: keeps the answer of %s, which is delivered, for later calls: its handler does not run again',
    async (path) => {
      const key = newKey();
      const before = runs;
      const { first } = await begin(path, key);
      const giveBack = await takeAway(database.url);
      gate.resolve();
      const delivered = await first;
      expect([delivered.status, delivered.text]).toEqual([201, `{"run":${before + 1}}`]);
      expect(app.events.at(-1)).toBe('storedLater');
      expect((await app.send(path, key)).status).toBe(503);
      await giveBack();
      await until(async () => (await app.send('/quick', newKey())).status === 201);
      await until(async () => (await stateOf(key)) === 'COMPLETED');
      const later = await app.send(path, key);
      expect(later.bytes).toEqual(delivered.bytes);
      expect(later.headers['idempotent-replayed']).toBe('true');
    },
  );

  it('gets the answers that it has missed when the application ends', async () => {
    const leaving = await idempotentApp(database.store, routes, { leaseMs: 60_000 });
    const key = newKey();
    const before = runs;
    gate = Promise.withResolvers();
    const first = leaving.send('/slow', key);
    await until(() => runs > before);
    const giveBack = await takeAway(database.url);
    gate.resolve();
    expect((await first).status).toBe(201);
    const closed = leaving.close();
    await giveBack();
    await closed;
    expect(await stateOf(key)).toBe('COMPLETED');
    expect((await app.send('/slow', key)).bytes).toEqual((await first).bytes);
  });
});

async function stateOf(key: string): Promise<unknown> {
  const { rows } = await database.pool.query<{ readonly state: string }>(
    'SELECT state FROM idempotency_records WHERE idempotency_key = $1',
    [key],
  );
  return rows[0]?.state ?? null;
}

describe('a connection that breaks after the database has committed', () => {
  it('frees the key that was taken, and finds the answer that was stored', async () => {
    const proxy = await startPostgresProxy({ upstreamPort: Number(new URL(database.url).port) });
    const pool = new Pool({ connectionString: proxy.through(database.url) });
    pool.on('error', () => {});
    const behind = await idempotentApp(new PostgresIdempotencyStore(pool), routes, {
      leaseMs: 60_000,
    });
    const key = newKey();
    const before = runs;
    const taken = proxy.dropNextReplyWhen('idempotency_claim');
    expect((await behind.send('/quick', key)).status).toBe(503);
    await taken;
    expect(runs).toBe(before);

    const stored = proxy.dropNextReplyWhen('SET state');
    const answer = await repeat('/quick', key, behind);
    await stored;
    expect([answer.status, answer.text]).toEqual([201, `{"run":${before + 1}}`]);
    expect(behind.events.at(-1)).toBe('storedLater');
    const again = await behind.send('/quick', key);
    expect(again.bytes).toEqual(answer.bytes);
    expect(again.headers['idempotent-replayed']).toBe('true');
    await behind.close();
    await pool.end();
    await proxy.close();
  });
});

describe('a handler that takes longer than its lease', () => {
  it('M15c: keeps its key although it might run again: there is one effect', async () => {
    const key = newKey();
    const before = runs;
    const { first } = await begin('/slow-rerun', key);
    expect(await isHeldForLong(key)).toBe(true);
    expect((await app.send('/slow-rerun', key)).status).toBe(409);
    gate.resolve();
    expect((await first).status).toBe(201);
    expect((await app.send('/slow-rerun', key)).bytes).toEqual((await first).bytes);
    expect(runs).toBe(before + 1);
  });

  it('M15c: keeps its key when its client has given up as well', async () => {
    const key = newKey();
    const before = runs;
    const going = new AbortController();
    const { first } = await begin('/slow-rerun', key, going.signal);
    going.abort();
    await expect(first).rejects.toThrow('aborted');
    expect(await isHeldForLong(key)).toBe(true);
    expect((await app.send('/slow-rerun', key)).status).toBe(409);
    gate.resolve();
    expect((await repeat('/slow-rerun', key)).text).toBe(`{"run":${before + 1}}`);
    expect(runs).toBe(before + 1);
  });
});

describe('an answer', () => {
  it('that comes after its reply was returned is the one that is stored, although its client has gone', async () => {
    const key = newKey();
    const before = runs;
    const going = new AbortController();
    const { first } = await begin('/later', key, going.signal);
    going.abort();
    await expect(first).rejects.toThrow('aborted');
    const connections = promisify(app.app.server.getConnections.bind(app.app.server));
    await until(async () => (await connections()) === 0);
    gate.resolve();
    const again = await repeat('/later', key);
    expect([again.status, again.text]).toEqual([201, `{"run":${before + 1}}`]);
  });

  it('that a handler sends without waiting for it is delivered whole, the first time as well', async () => {
    const key = newKey();
    const first = await app.send('/forgetful', key);
    expect([first.status, first.text]).toEqual([201, `{"run":${runs}}`]);
    expect((await app.send('/forgetful', key)).bytes).toEqual(first.bytes);
  });

  it('that the store does not take stands in the way of no other', async () => {
    const refuses = new Set([200, 402]);
    const store = new MemoryIdempotencyStore({
      stored(response) {
        if (refuses.has(response.status)) throw new Error('not taken');
        return response;
      },
    });
    const picky = await idempotentApp(
      store,
      (server) => {
        server.post('/refused', async (_request, reply) => reply.code(402).send());
        server.post('/taken', async () => 'taken');
      },
      { leaseMs: LEASE_MS },
    );
    const [refused, taken] = [newKey(), newKey()];
    expect((await picky.send('/refused', refused)).status).toBe(402);
    expect((await picky.send('/taken', taken)).status).toBe(200);
    expect(picky.events.filter((event) => event === 'storedLater')).toHaveLength(2);
    refuses.delete(200);
    expect((await repeat('/taken', taken, picky)).headers['idempotent-replayed']).toBe('true');
    expect((await picky.send('/refused', refused)).status).toBe(409);
    refuses.delete(402);
    await picky.close();
  });

  it('is kept for the store however many keys wait to be given back', async () => {
    const store = new MemoryIdempotencyStore();
    let away = true;
    const keeper = new Keeper(
      settingsOf({
        store: new Proxy(store, {
          get: (target, name: keyof MemoryIdempotencyStore) => {
            if (away) throw new Error(`${name}: the store is away`);
            return target[name].bind(target);
          },
        }),
        principal: () => 'p',
        policyUrl: 'p',
        leaseMs: LEASE_MS,
      }),
    );
    const claim = { principal: 'p', endpoint: '*', key: 'k', fingerprint: Buffer.alloc(32) };
    const holder = 'holder';
    await store.claim({ ...claim, holder, leaseMs: 60_000, takeover: 'conflict' });
    const held = keeper.keep({ ...claim, holder, fence: 1 });
    for (let n = 0; n < 10_001; n += 1) await keeper.abandon({ ...claim, holder: `nobody ${n}` });
    const answer = { state: 'COMPLETED', status: 200, headers: [], body: null } as const;
    expect(await keeper.complete(held, answer)).toBe('later');
    away = false;
    await until(async () => (await store.look(claim, claim.fingerprint))?.kind === 'stored');
    await keeper.close();
  });
});
