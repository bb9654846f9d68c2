import { randomBytes, randomUUID } from 'node:crypto';
import { Pool, type PoolClient } from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  PostgresIdempotencyStore,
  storeConformance,
  type Claim,
  type Hold,
  type IdempotencyStore,
  type StoredResponse,
} from '../../src/http/idempotency/index.ts';
import { startPostgresProxy } from '../support/crash-pg-proxy.ts';
import { postgresStore } from '../support/idempotent-app.ts';
import { BROKEN_RULES } from '../support/idempotent-broken-rules.ts';
import { MemoryIdempotencyStore } from '../support/idempotent-memory-store.ts';

const CHECKS = storeConformance();
const TOOLS = { shortMs: 5, patienceMs: 10_000 };

let database: Awaited<ReturnType<typeof postgresStore>>;
beforeAll(async () => {
  database = await postgresStore();
});
afterAll(() => database.close());

describe('the store in PostgreSQL', () => {
  it.each(CHECKS)('$name', async ({ run }) => {
    await expect(run(database.store, TOOLS)).resolves.toBeUndefined();
  });
});

describe('a store in memory', () => {
  const store = new MemoryIdempotencyStore();
  it.each(CHECKS)('$name, too', async ({ run }) => {
    await expect(run(store, TOOLS)).resolves.toBeUndefined();
  });
});

/** The checks that a store fails, by name. */
async function failing(store: IdempotencyStore): Promise<readonly string[]> {
  const names: string[] = [];
  for (const { name, run } of CHECKS)
    await run(store, { shortMs: 5, patienceMs: 100 }).catch(() => names.push(name));
  return names;
}

describe('the conformance suite', () => {
  it('has no two checks of one name', () => {
    expect(new Set(CHECKS.map(({ name }) => name)).size).toBe(CHECKS.length);
  });

  it('sees nothing wrong with a store that is right', async () => {
    expect(await failing(new MemoryIdempotencyStore())).toEqual([]);
  });

  it.concurrent.each(BROKEN_RULES)('sees a store that %s', async (_bug, rules, seenBy) => {
    expect(await failing(new MemoryIdempotencyStore(rules))).toContain(seenBy);
  });
});

const LONG_MS = 600_000;
const ANSWER: StoredResponse = { state: 'COMPLETED', status: 200, headers: [], body: null };

/** A try with a request of its own under a key of its own. */
const newTry = (changes: Partial<Claim> = {}): Claim => ({
  principal: 'store test',
  endpoint: '*',
  key: randomUUID(),
  fingerprint: randomBytes(32),
  holder: randomUUID(),
  leaseMs: LONG_MS,
  takeover: 'rerun',
  ...changes,
});
const another = (claim: Claim): Claim => ({ ...claim, holder: randomUUID() });

/** Takes a key; with a lease of no time its holder counts as gone at once. */
async function take(claim: Claim, store: IdempotencyStore = database.store): Promise<Hold> {
  const answer = await store.claim(claim);
  if (answer.kind !== 'claimed') throw new Error(`the key is ${answer.kind}`);
  return { ...claim, fence: answer.fence };
}

/** Work in a transaction that stays open until it is over, and is rolled back. */
async function inTransaction<T>(work: (client: PoolClient) => Promise<T>): Promise<T> {
  const client = await database.pool.connect();
  await client.query('BEGIN');
  try {
    return await work(client);
  } finally {
    await client.query('ROLLBACK');
    client.release();
  }
}

const lockRow = (client: PoolClient, { key }: { readonly key: string }) =>
  client.query('SELECT 1 FROM idempotency_records WHERE idempotency_key = $1 FOR UPDATE', [key]);

describe('times', () => {
  it('M14: are those of the database: a lease and a retention are exactly as long as they were said to be', async () => {
    await inTransaction(async (client) => {
      // now() stands still in a transaction, so that nothing has to be taken for close enough.
      const store = new PostgresIdempotencyStore(client);
      const timesOf = async ({ key }: { readonly key: string }) => {
        const { rows } = await client.query(
          `SELECT (lease_until - now())::text AS lease, (expires_at - now())::text AS retention
           FROM idempotency_records WHERE idempotency_key = $1`,
          [key],
        );
        return rows[0] as unknown;
      };
      const hold = await take(newTry({ leaseMs: 30_000 }), store);
      expect(await timesOf(hold)).toEqual({ lease: '00:00:30', retention: null });
      await store.renew([hold], 45_500);
      expect(await timesOf(hold)).toEqual({ lease: '00:00:45.5', retention: null });
      await store.complete(hold, ANSWER, 24 * 3_600_000);
      expect(await timesOf(hold)).toEqual({ lease: null, retention: '1 day' });
    });
  });
});

describe('a claim that meets somebody else at the row', () => {
  it('is answered although the row is locked, whatever its state', async () => {
    const held = newTry();
    const gone = newTry({ leaseMs: 0 });
    const done = newTry();
    for (const claim of [held, gone]) await take(claim);
    await database.store.complete(await take(done), ANSWER, LONG_MS);
    await inTransaction(async (client) => {
      for (const claim of [held, gone, done]) await lockRow(client, claim);
      const kinds = async (claims: readonly Claim[]) =>
        (await Promise.all(claims.map((claim) => database.store.claim(another(claim))))).map(
          ({ kind }) => kind,
        );
      expect(await kinds([held, gone, done])).toEqual(['inFlight', 'inFlight', 'stored']);
      const others = [held, gone, done].map((claim) => ({
        ...claim,
        fingerprint: randomBytes(32),
      }));
      expect(await kinds(others)).toEqual(['mismatch', 'mismatch', 'mismatch']);
    });
    expect((await database.store.claim(another(gone))).kind).toBe('claimed');
  });

  it('says in flight after half a second when a rival takes the key and does not commit', async () => {
    const claim = newTry();
    await inTransaction(async (client) => {
      await take(claim, new PostgresIdempotencyStore(client));
      const startedAt = performance.now();
      expect(await database.store.claim(another(claim))).toEqual({ kind: 'inFlight' });
      expect(performance.now() - startedAt).toBeGreaterThan(400);
    });
    expect((await database.store.claim(another(claim))).kind).toBe('claimed');
  });

  it.each([
    ['M15: gives the response that was stored between its read and its takeover', 'stored'],
    ['M15: leaves a key whose holder came back between its read and its takeover', 'inFlight'],
  ])('%s', async (_what, expected) => {
    const claim = newTry({ leaseMs: 0 });
    const hold = await take(claim);
    await withPausedTakeover(async (store, paused) => {
      const takeover = store.claim(another(claim));
      await paused();
      if (expected === 'stored') await database.store.complete(hold, ANSWER, LONG_MS);
      else await database.store.renew([hold], LONG_MS);
      return async () => {
        expect((await takeover).kind).toBe(expected);
      };
    });
    expect(await database.store.complete(hold, ANSWER, LONG_MS)).toBe('stored');
  });
});

const PAUSE = 4_711;

/** The claim as it is, but for a pause between its read and its takeover; what `work` returns comes after the pause. */
async function withPausedTakeover(
  work: (store: IdempotencyStore, paused: () => Promise<void>) => Promise<() => Promise<void>>,
): Promise<void> {
  const { rows } = await database.pool.query<{ readonly code: string }>(
    `SELECT pg_get_functiondef('idempotency_claim'::regproc) AS code`,
  );
  const code = rows[0]?.code ?? '';
  const withPause = code
    .replace('idempotency_claim', 'paused_claim')
    .replace("lock_timeout TO '500ms'", "lock_timeout TO '20s'")
    .replace('    PERFORM FROM', `    PERFORM pg_advisory_xact_lock(${PAUSE});\n    PERFORM FROM`);
  expect(withPause.length).toBeGreaterThan(code.length);
  await database.pool.query(withPause);
  const store = new PostgresIdempotencyStore({
    query: (text, values) =>
      database.pool.query(text.replace('idempotency_claim', 'paused_claim'), values),
  });
  const after = await inTransaction(async (client) => {
    await client.query(`SELECT pg_advisory_xact_lock(${PAUSE})`);
    return work(store, () =>
      expect
        .poll(async () => {
          const waiting = await database.pool.query(
            `SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND objid = ${PAUSE} AND NOT granted`,
          );
          return waiting.rowCount;
        })
        .toBe(1),
    );
  });
  await after();
}

describe('a stored response', () => {
  it('is neither changed nor deleted before its time, whoever asks', async () => {
    const hold = await take(newTry());
    await database.store.complete(hold, ANSWER, LONG_MS);
    for (const change of [
      "UPDATE idempotency_records SET body = 'x'",
      'UPDATE idempotency_records SET expires_at = now()',
      "UPDATE idempotency_records SET state = 'IN_PROGRESS'",
      'DELETE FROM idempotency_records',
    ]) {
      await expect(
        database.pool.query(`${change} WHERE idempotency_key = $1`, [hold.key]),
      ).rejects.toMatchObject({ constraint: 'idempotency_stored_response_is_kept' });
    }
    expect(await database.store.complete(hold, { ...ANSWER, status: 201 }, LONG_MS)).toBe('stored');
    expect(await database.store.look(hold, randomBytes(32))).toEqual({ kind: 'mismatch' });
  });
});

describe('the purge', () => {
  it('takes as many as it may, passes what is locked, and never takes a key in flight', async () => {
    while ((await database.store.purge(1_000)) > 0);
    const gone = newTry({ leaseMs: 0 });
    await take(gone);
    const old = [newTry(), newTry(), newTry(), newTry()];
    for (const claim of old) await database.store.complete(await take(claim), ANSWER, 0);
    await inTransaction(async (client) => {
      await lockRow(client, old[0] ?? gone);
      expect(await database.store.purge(2)).toBe(2);
      expect(await database.store.purge(1_000)).toBe(1);
    });
    expect(await database.store.purge(1_000)).toBe(1);
    expect((await database.store.look(gone, gone.fingerprint))?.kind).toBe('interrupted');
  });
});

describe('with 50,000 keys', () => {
  it('reads by an index, whatever is asked', async () => {
    await database.pool.query(`
      INSERT INTO idempotency_records (principal, endpoint, idempotency_key, fingerprint, holder, state, lease_until,
        completed_at, expires_at, status, headers)
      SELECT 'many', '*', 'key ' || n, sha256(n::text::bytea), gen_random_uuid(),
        (CASE WHEN n % 50 = 0 THEN 'IN_PROGRESS' ELSE 'COMPLETED' END)::idempotency_state,
        CASE WHEN n % 50 = 0 THEN now() + (n % 3 - 1) * interval '1 hour' END,
        CASE WHEN n % 50 <> 0 THEN now() END, CASE WHEN n % 50 <> 0 THEN now() + (n % 5 - 1) * interval '1 hour' END,
        CASE WHEN n % 50 <> 0 THEN 200 END, CASE WHEN n % 50 <> 0 THEN '[]'::jsonb END
      FROM generate_series(1, 50000) AS n`);
    await database.pool.query('ANALYZE idempotency_records');
    await inTransaction(async (client) => {
      const scans = async () => {
        await client.query('SELECT pg_stat_clear_snapshot()');
        const { rows } = await client.query<{ readonly scans: string; readonly reads: string }>(
          `SELECT pg_stat_get_xact_numscans('idempotency_records'::regclass) AS scans,
             (SELECT sum(pg_stat_get_xact_numscans(indexrelid)) FROM pg_index
              WHERE indrelid = 'idempotency_records'::regclass) AS reads`,
        );
        return { sequential: Number(rows[0]?.scans), byIndex: Number(rows[0]?.reads) };
      };
      const before = await scans();
      const store = new PostgresIdempotencyStore(client);
      const hold = await take(newTry(), store);
      await store.look(hold, randomBytes(32));
      await store.renew([hold], LONG_MS);
      await store.complete(hold, ANSWER, 0);
      await take({ ...newTry(), key: hold.key }, store);
      await store.abandon(await take(newTry(), store));
      const gone = newTry({ leaseMs: 0 });
      await take(gone, store);
      expect(await store.resolve(await take(another(gone), store), null, 1)).toBe('resolved');
      expect(await store.interrupted(10)).toHaveLength(10);
      expect(await store.purge(500)).toBe(500);
      const after = await scans();
      expect(after.sequential).toBe(before.sequential);
      expect(after.byIndex).toBeGreaterThan(before.byIndex + 10);
    });
  });
});

describe('a connection that breaks after the database has committed', () => {
  it('leaves nothing that the same try cannot do again', async () => {
    const proxy = await startPostgresProxy({ upstreamPort: Number(new URL(database.url).port) });
    const pool = new Pool({ connectionString: proxy.through(database.url) });
    pool.on('error', () => {});
    const store = new PostgresIdempotencyStore(pool);
    /** Loses the answer of the first time, and returns that of the second. */
    const twice = async <T>(statement: string, work: () => Promise<T>): Promise<T> => {
      const lost = proxy.dropNextReplyWhen(statement);
      await expect(work()).rejects.toThrow('terminated');
      await lost;
      return work();
    };
    const claim = newTry();
    const first = await twice('idempotency_claim', () => store.claim(claim));
    expect(first).toEqual({ kind: 'claimed', fence: 1, takenOver: false });
    expect((await store.claim(another(claim))).kind).toBe('inFlight');
    const hold = { ...claim, fence: 1 };
    expect(await twice('SET lease_until', () => store.renew([hold], 0))).toEqual([]);

    const late = another(claim);
    const second = await twice('idempotency_claim', () => store.claim(late));
    expect(second).toEqual({ kind: 'claimed', fence: 2, takenOver: true });
    const holdOfLate = { ...late, fence: 2 };
    expect(await twice('SET state', () => store.complete(holdOfLate, ANSWER, LONG_MS))).toBe(
      'stored',
    );
    expect(await store.complete(hold, ANSWER, LONG_MS)).toBe('lost');

    const back = await take(newTry(), store);
    await twice('DELETE', () => store.abandon(back));
    expect(await store.look(back, randomBytes(32))).toBeNull();
    expect(proxy.stats().dropped).toBe(5);
    await pool.end();
    await proxy.close();
  });
});
