import { globSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { Kysely, PostgresDialect, sql } from 'kysely';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openDatabase, type Database } from '../../src/db/database.ts';
import { withPlanLocked } from '../../src/db/refunds.ts';
import type { DB } from '../../src/db/schema.ts';
import { migratedDatabase } from '../support/engine.ts';

// Failures that others had in public; the ids are those of docs/cases.md.

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

let url: string;
let database: Database;
beforeAll(async () => {
  url = await migratedDatabase();
  database = openDatabase({ url, applicationName: 'locks', onError: () => {} });
});
afterAll(() => database.close());

/** Advisory locks that anybody holds in this database. */
async function held(): Promise<number> {
  const { rows } = await sql<{ n: number }>`
    SELECT count(*)::int AS n FROM pg_locks JOIN pg_database d ON d.oid = pg_locks.database
    WHERE locktype = 'advisory' AND d.datname = current_database()`.execute(database.db);
  return rows[0]?.n ?? -1;
}

/** A pool of one connection on which giving a lock back fails, while the connection lives on. */
function poolThatCannotUnlock(): Kysely<DB> {
  const pool = new pg.Pool({ connectionString: url, max: 1 });
  pool.on('error', () => {});
  pool.on('connect', (client) => {
    client.on('error', () => {});
    const query: unknown = client.query.bind(client);
    if (typeof query !== 'function') throw new Error('pg has no query');
    Object.assign(client, {
      query: (...args: readonly unknown[]): unknown =>
        String(args[0]).includes('pg_advisory_unlock')
          ? Promise.reject(new Error('canceling statement due to statement timeout'))
          : Reflect.apply(query, client, args),
    });
  });
  return new Kysely<DB>({ dialect: new PostgresDialect({ pool }) });
}

describe('the lock of a refund plan', () => {
  it('N5: is not given twice within one process, and is free again afterwards', async () => {
    const inner = await withPlanLocked(database.db, 1, () =>
      withPlanLocked(database.db, 1, async () => 'both'),
    );
    expect(inner).toEqual({ result: null });
    expect(await withPlanLocked(database.db, 1, async () => 'again')).toEqual({ result: 'again' });
    expect(await held()).toBe(0);
  });

  it('N6: is held by no connection of the pool when the work has thrown', async () => {
    const work = withPlanLocked(database.db, 2, async () => {
      expect(await held()).toBe(1);
      throw new Error('no money');
    });
    await expect(work).rejects.toThrow('no money');
    expect(await held()).toBe(0);
  });

  it('N6: takes its connection with it when it cannot be given back, instead of staying in the pool', async () => {
    const db = poolThatCannotUnlock();
    expect(await withPlanLocked(db, 3, async () => 'done')).toEqual({ result: 'done' });
    // The server notices a moment later that its client has gone.
    await expect.poll(held).toBe(0);
    expect(await withPlanLocked(database.db, 3, async () => 'next')).toEqual({ result: 'next' });
    await db.destroy();
  });

  it('N4: shows what a pool would do without it: locked twice, unlocked once, rolled back, still held', async () => {
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    const one = async (text: string): Promise<unknown> => (await client.query(text)).rows[0];
    await client.query('BEGIN');
    await client.query('SELECT pg_advisory_lock(4), pg_advisory_lock(4)');
    expect(await one('SELECT pg_advisory_unlock(4) AS unlocked')).toEqual({ unlocked: true });
    await client.query('ROLLBACK');
    expect(await held()).toBe(1);
    await client.query('DISCARD ALL');
    expect(await held()).toBe(0);
    await client.end();
  });
});

describe('advisory locks in the source', () => {
  const uses = ['src/**/*.ts', 'migrations/*.sql']
    .flatMap((pattern) => globSync(pattern, { cwd: ROOT }))
    .flatMap((file) =>
      [
        ...readFileSync(path.join(ROOT, file), 'utf8').matchAll(/pg_\w*advisory_(?!unlock)\w+/g),
      ].map(([call]) => `${file} ${call}`),
    );

  it('N7: guard no slot: none is named after a customer, so no two customers can share one', () => {
    expect(uses.sort()).toEqual([
      'migrations/0009_refunds.sql pg_advisory_xact_lock',
      // One request's answer: two of a number would only wait for each other.
      'migrations/0011_vault.sql pg_advisory_xact_lock',
      'src/db/refunds.ts pg_try_advisory_lock',
      'src/import/import-customers.ts pg_try_advisory_xact_lock',
    ]);
  });

  it('N7: have numbers of their own, that of the migrations included', async () => {
    const { rows } = await sql<{ a: string; b: string; c: string }>`
      SELECT hashtextextended('chargeonce.import-customers', 0)::text AS a,
             hashtext('chargeonce refund target')::bigint::text AS b,
             -- two numbers in one: a plan's lock, in the space that Postgres keeps apart
             hashtext('chargeonce refund plan')::bigint::text AS c`.execute(database.db);
    const numbers = Object.values(rows[0] ?? {});
    // node-pg-migrate locks under this one.
    expect(new Set([...numbers, '7241865325823964']).size).toBe(4);
  });
});
