import { rename, rm, symlink } from 'node:fs/promises';
import path from 'node:path';
import { Client as Pg } from 'pg';
import { eventually, pause } from './luck.ts';
import type { PostgresLog } from './postgres-log.ts';
import { MAX_CONNECTIONS, type World } from './world.ts';

/** Longest that one of these faults lasts when nobody runs into it. */
const LONGEST_MS = 3_000;
/** And how long it stays once somebody has. */
const STAYS_MS = 500;
/** With what it takes to bring it on and away. */
export const LONGEST_SQL_FAULT_MS = 4_500;
const POLL_MS = 50;
const TOUCH_MS = 100;
const BETWEEN_TOUCHES_MS = 20;

/** What PostgreSQL answers while one of these faults is on. */
interface SqlFault {
  readonly name: string;
  readonly sqlstate: string;
  /** Brings the fault on, waits, takes it away again. Whatever it needs is in its own session. */
  readonly run: (at: Scene) => Promise<void>;
}

interface Scene {
  readonly world: World;
  readonly log: PostgresLog;
  readonly session: Pg;
  /** until somebody got the error, or the time is over */
  readonly untilMet: () => Promise<void>;
}

export const SQL_FAULTS: readonly SqlFault[] = [
  { name: 'postgres.deadlock', sqlstate: '40P01', run: deadlock },
  { name: 'postgres.serialization', sqlstate: '40001', run: serialization },
  {
    // A migration or a report that holds a table longer than lock_timeout.
    name: 'postgres.lockTimeout',
    sqlstate: '55P03',
    async run({ session, untilMet }) {
      await session.query('begin');
      await session.query('lock table billing_charges in share mode');
      await untilMet();
      await session.query('rollback');
    },
  },
  {
    // What a failover to a standby, or a full disk at a hosted database, looks like.
    name: 'postgres.readOnly',
    sqlstate: '25006',
    async run({ session, untilMet }) {
      await session.query('alter system set default_transaction_read_only = on');
      await session.query('select pg_reload_conf()');
      await untilMet();
      await session.query('alter system reset default_transaction_read_only');
      await session.query('select pg_reload_conf()');
    },
  },
  { name: 'postgres.poolExhausted', sqlstate: '53300', run: tooManyConnections },
  { name: 'postgres.diskFull', sqlstate: '53100', run: diskFull },
];

/**
 * Runs one fault; true when PostgreSQL's log says that somebody got its error. A server that crashes in the
 * middle of it makes it false, and the caller tries again.
 */
export async function runSqlFault(
  fault: SqlFault,
  scene: { readonly world: World; readonly log: PostgresLog; readonly signal: AbortSignal },
): Promise<boolean> {
  const { world, log, signal } = scene;
  const before = (await log.bySqlstate()).of(fault.sqlstate);
  const met = async () => (await log.bySqlstate()).of(fault.sqlstate) > before;
  const session = await openSession(world.databaseUrl);
  try {
    // Not touched by the faults itself.
    await session.query('set default_transaction_read_only = off');
    await fault.run({
      world,
      log,
      session,
      async untilMet() {
        await eventually(met, { timeoutMs: LONGEST_MS, pollMs: POLL_MS, signal });
        await pause(STAYS_MS, signal);
      },
    });
    return await met();
  } finally {
    await session.end().catch(() => {});
  }
}

/** Takes away what a crash in the middle of a fault may have left on. */
export async function healSqlFaults(world: World): Promise<void> {
  const session = await openSession(world.databaseUrl);
  try {
    await session.query('set default_transaction_read_only = off');
    await session.query('alter system reset default_transaction_read_only');
    await session.query('alter system reset default_transaction_isolation');
    await session.query('select pg_reload_conf()');
    await session.query('drop trigger if exists chaos_disk_full on audit_log');
  } finally {
    await session.end().catch(() => {});
  }
}

async function openSession(url: string): Promise<Pg> {
  const session = new Pg({
    connectionString: url,
    connectionTimeoutMillis: 2_000,
    query_timeout: 15_000,
    application_name: 'chaos harness',
  });
  session.on('error', () => {});
  await session.connect();
  return session;
}

/**
 * Takes the rows of generations first and those of slots second, while the workers go the other way. The
 * session itself looks for deadlocks so late that it is always a worker who is told.
 */
async function deadlock({ world, session, untilMet }: Scene): Promise<void> {
  await session.query(`set deadlock_timeout = '10s'`);
  await session.query('begin');
  const { rows } = await session.query<{ customer_id: string }>(`
    select g.customer_id from charge_generations g join billing_charges s using (namespace, period, customer_id)
    where s.state in ('sent', 'indeterminate') and g.outcome is null
    order by g.customer_id limit 200 for update of g skip locked`);
  const ids = rows.map((row) => row.customer_id);
  const [{ pid } = { pid: 0 }] = (
    await session.query<{ pid: number }>('select pg_backend_pid() as pid')
  ).rows;
  // Somebody has to stand in the line before it is closed to a ring.
  await eventually(
    async () => {
      const waiting = await world.query(
        'select 1 from pg_stat_activity where $1 = any (pg_blocking_pids(pid)) limit 1',
        [pid],
      );
      return waiting.length > 0;
    },
    { timeoutMs: LONGEST_MS / 2, pollMs: 20, signal: AbortSignal.timeout(LONGEST_MS) },
  );
  await session.query(
    'select 1 from billing_charges where customer_id = any ($1::text[]) order by customer_id for update',
    [ids],
  );
  await session.query('rollback');
  await untilMet();
}

/**
 * Every session works under "repeatable read" for a moment, as a pooler or an administrator may set it, while rows
 * get new versions with the same values: whoever waits for one of them is told to begin again.
 */
async function serialization({ session, untilMet }: Scene): Promise<void> {
  await session.query(`alter system set default_transaction_isolation = 'repeatable read'`);
  await session.query('select pg_reload_conf()');
  await session.query(`set default_transaction_isolation = 'read committed'`);
  const over = new AbortController();
  const touch = (async () => {
    while (!over.signal.aborted) {
      await session.query('begin');
      await session.query(`update billing_charges set updated_at = updated_at
        where state in ('claimed', 'sent', 'indeterminate')`);
      await pause(TOUCH_MS, AbortSignal.timeout(TOUCH_MS));
      await session.query('commit');
      await pause(BETWEEN_TOUCHES_MS, AbortSignal.timeout(TOUCH_MS));
    }
  })();
  try {
    await Promise.race([untilMet(), touch]);
  } finally {
    over.abort();
    await touch;
  }
  await session.query('alter system reset default_transaction_isolation');
  await session.query('select pg_reload_conf()');
}

/** Takes every free connection, then ends the workers' own: they cannot come back until it is over. */
async function tooManyConnections({ world, log, session, untilMet }: Scene): Promise<void> {
  const held: Pg[] = [];
  const takeAll = async (): Promise<void> => {
    for (let n = 0; n < MAX_CONNECTIONS; n += 1) {
      try {
        held.push(await openSession(world.databaseUrl));
      } catch {
        // This refusal is the harness's own, and proves nothing.
        log.discount('53300');
        return;
      }
    }
  };
  try {
    await takeAll();
    await session.query(
      `select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'chargeonce%'`,
    );
    // The places that have become free are taken as well.
    await takeAll();
    await untilMet();
  } finally {
    await Promise.all(held.map((one) => one.end().catch(() => {})));
  }
}

const FULL_TABLE = 'chaos_full_disk';

/**
 * A write of ours meets a full disk: the file of a table that a trigger of the harness writes to becomes
 * /dev/full, where the kernel answers every write with ENOSPC. PostgreSQL's own path from there to SQLSTATE
 * 53100 is the one of a real full disk under a table; a full disk under the WAL stops the server, which the
 * crashes stand for.
 */
async function diskFull({ session, untilMet }: Scene): Promise<void> {
  await session.query(`drop trigger if exists chaos_disk_full on audit_log`);
  await session.query(`drop table if exists ${FULL_TABLE}`);
  // Unlogged: nothing of it is replayed after a crash.
  await session.query(`create unlogged table ${FULL_TABLE} (n integer)`);
  await session.query('checkpoint');
  const { rows } = await session.query<{ file: string }>(
    `select current_setting('data_directory') || '/' || pg_relation_filepath('${FULL_TABLE}') as file`,
  );
  const file = rows[0]?.file;
  if (file === undefined) throw new Error('the table of the full disk has no file');
  const aside = path.join(path.dirname(file), `${FULL_TABLE}.aside`);
  await rename(file, aside);
  await symlink('/dev/full', file);
  try {
    await session.query(`create or replace function chaos_disk_full() returns trigger language plpgsql as
      $$ begin insert into ${FULL_TABLE} values (1); return new; end $$`);
    await session.query(`create trigger chaos_disk_full before insert on audit_log
      for each row execute function chaos_disk_full()`);
    await untilMet();
    await session.query('drop trigger chaos_disk_full on audit_log');
  } finally {
    await rm(file, { force: true });
    await rename(aside, file).catch(() => {});
  }
  await session.query(`drop table ${FULL_TABLE}`);
}
