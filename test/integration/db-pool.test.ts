import { setTimeout as sleep } from 'node:timers/promises';
import { sql } from 'kysely';
import { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { charge } from '../../src/activities/charge.ts';
import { claimSlot } from '../../src/activities/claim-slot.ts';
import { createBillingActivities } from '../../src/activities/index.ts';
import { openDatabase, parseInt8 } from '../../src/db/database.ts';
import { ensureEnvironment, EnvironmentMismatch } from '../../src/db/environment.ts';
import { migrate, pendingMigrations } from '../../src/db/migrate.ts';
import { migratedDatabase, slotRef, startEngine, type Engine } from '../support/engine.ts';
import { testPostgres } from '../support/postgres.ts';
import { runSchemaCodegen } from '../support/schema-codegen.ts';

const STRIPE_MS = 1_500;

let engine: Engine;
beforeAll(async () => {
  engine = await startEngine({ poolSize: 2, simulator: { latencyMs: STRIPE_MS } });
  await engine.plan(Array.from({ length: 10 }, (_, i) => ({ id: `p${i}` })));
});
afterAll(() => engine.close());

describe('the pool', () => {
  it('N9, N10: holds no connection while Stripe is called, so 10 slow charges get by with two', async () => {
    const watcher = new Client({
      connectionString: engine.databaseUrl,
      application_name: 'watcher',
    });
    await watcher.connect();
    const seen: { idle: number; waiting: number }[] = [];
    const charging = new AbortController();
    const watch = (async () => {
      while (!charging.signal.aborted) {
        const { rows } = await watcher.query<{ idle: number; waiting: number }>(
          // For as long as a call to Stripe takes, almost: between two statements, and for a moment, both are as they should be.
          `SELECT count(*) FILTER (WHERE state LIKE 'idle in transaction%'
                    AND state_change < clock_timestamp() - interval '1 second')::int AS idle,
                  count(*) FILTER (WHERE wait_event_type = 'Lock'
                    AND query_start < clock_timestamp() - interval '1 second')::int AS waiting
           FROM pg_stat_activity WHERE application_name = 'engine test'`,
        );
        if (rows[0] !== undefined) seen.push(rows[0]);
        await sleep(25);
      }
    })();
    const outcomes = await Promise.all(
      Array.from({ length: 10 }, async (_, i) => {
        const slot = slotRef(`p${i}`);
        await claimSlot(engine.deps, slot);
        const { result } = await charge(engine.deps, { ...slot, generation: 1 }, 1);
        return result.outcome;
      }),
    );
    charging.abort();
    await watch;
    await watcher.end();
    expect(outcomes).toEqual(Array.from({ length: 10 }, () => 'charged'));
    expect(seen.length).toBeGreaterThan(10);
    expect(seen.filter((one) => one.idle > 0 || one.waiting > 0)).toEqual([]);
  });

  it('N4: leaves no advisory lock on its connections', async () => {
    const { rows } = await sql<{
      n: number;
    }>`SELECT count(*)::int AS n FROM pg_locks WHERE locktype = 'advisory'`.execute(engine.db);
    expect(rows[0]?.n).toBe(0);
  });

  it('survives a restart of Postgres and answers again, with the outage told as one to try again', async () => {
    const postgres = await testPostgres();
    const errors: Error[] = [];
    const database = openDatabase({
      url: await migratedDatabase(),
      applicationName: 'survivor',
      poolSize: 3,
      onError: (error) => errors.push(error),
    });
    const activities = createBillingActivities(engine.with({ db: database.db }));
    // Connections that idle when the server goes: their 'error' must not end this process.
    await Promise.all([1, 2, 3].map(() => sql`SELECT pg_sleep(0.05)`.execute(database.db)));
    await postgres.immediateStop();
    const refused = activities.readTotals(slotRef('p0'));
    await expect(refused).rejects.toMatchObject({
      type: 'DatabaseUnavailable',
      nonRetryable: false,
    });
    await postgres.start();
    expect((await sql`SELECT 1`.execute(database.db)).rows).toHaveLength(1);
    expect(errors.length).toBeGreaterThan(0);
    await database.close();
  });

  it('parses int8 to a number and refuses what would lose a digit', async () => {
    const { rows } = await sql<{ n: number }>`SELECT 9007199254740991::bigint AS n`.execute(
      engine.db,
    );
    expect(rows[0]?.n).toBe(Number.MAX_SAFE_INTEGER);
    await expect(sql`SELECT 9007199254740992::bigint AS n`.execute(engine.db)).rejects.toThrow(
      'safe integer',
    );
    await expect(sql`SELECT -9007199254740992::bigint AS n`.execute(engine.db)).rejects.toThrow(
      'safe integer',
    );
    expect(() => parseInt8('not a number')).toThrow(RangeError);
  });

  it('bounds every wait in the database', async () => {
    const shown = async (name: string) =>
      (await sql<Record<string, string>>`SHOW ${sql.raw(name)}`.execute(engine.db)).rows[0]?.[name];
    expect(await shown('statement_timeout')).toBe('5s');
    expect(await shown('lock_timeout')).toBe('2s');
    expect(await shown('idle_in_transaction_session_timeout')).toBe('10s');
  });
});

describe('the environment of a database', () => {
  it.each([
    ['another account', { account: 'acct_other', liveMode: false }],
    ['live mode', { account: 'acct_mine', liveMode: true }],
  ])('refuses %s once it is bound, and says what it belongs to', async (_what, wanted) => {
    const database = openDatabase({
      url: await migratedDatabase(),
      applicationName: 'env',
      onError: () => {},
    });
    const mine = { account: 'acct_mine', liveMode: false };
    await Promise.all([1, 2, 3, 4].map(() => ensureEnvironment(database.db, mine)));
    await ensureEnvironment(database.db, mine);
    const refused = ensureEnvironment(database.db, wanted);
    await expect(refused).rejects.toBeInstanceOf(EnvironmentMismatch);
    await expect(refused).rejects.toThrow('belongs to Stripe account acct_mine in test mode');
    expect(await database.db.selectFrom('environment').selectAll().execute()).toHaveLength(1);
    expect(await database.db.selectFrom('audit_log').selectAll().execute()).toHaveLength(1);
    await database.close();
  });
});

describe('migrations', () => {
  it('apply once when two processes start at the same moment, and then find nothing to do', async () => {
    const { url } = await (await testPostgres()).createDatabase();
    const pending = await pendingMigrations(url);
    expect(pending.length).toBeGreaterThanOrEqual(4);
    const applied = await Promise.all([migrate(url), migrate(url)]);
    expect(applied.map((names) => names.length).sort((a, b) => a - b)).toEqual([0, pending.length]);
    expect(await pendingMigrations(url)).toEqual([]);
    expect(await migrate(url)).toEqual([]);
  });

  it('leave the schema that the generated types describe', async () => {
    const databaseUrl = await migratedDatabase();
    const matching = runSchemaCodegen({ databaseUrl, verify: true });
    expect(matching.exitCode === 0 ? '' : matching.output).toBe('');
    const client = new Client({ connectionString: databaseUrl });
    await client.connect();
    await client.query('ALTER TABLE customers ADD COLUMN surprise text');
    await client.end();
    expect(runSchemaCodegen({ databaseUrl, verify: true }).exitCode).not.toBe(0);
  });
});
