import { sql } from 'kysely';
import type { Platform } from '../../src/cli/platform.ts';

/** What PostgreSQL has counted so far. A session tells its counts when it ends. */
export interface Counts {
  readonly commits: number;
  /** fsyncs of the log: one serves all commits that wait at that moment */
  readonly walFlushes: number;
  readonly walBytes: number;
}

export async function counts({ database: { db } }: Platform): Promise<Counts> {
  const { rows } = await sql<Counts>`
    SELECT (SELECT xact_commit FROM pg_stat_database WHERE datname = current_database())::float8 AS commits,
      (SELECT sum(fsyncs) FROM pg_stat_io WHERE object = 'wal')::float8 AS "walFlushes",
      (SELECT wal_bytes FROM pg_stat_wal)::float8 AS "walBytes"`.execute(db);
  const [row] = rows;
  if (row === undefined) throw new Error('PostgreSQL counts nothing');
  return row;
}

/** The process that all others of this PostgreSQL belong to. */
export async function postmasterPid({ database: { db } }: Platform): Promise<number> {
  const { rows } = await sql<{ pid: number }>`
    SELECT split_part(pg_read_file('postmaster.pid'), E'\n', 1)::integer AS pid`.execute(db);
  return rows[0]?.pid ?? 0;
}

/** Every round begins with an empty table and no page that was not written yet. */
export async function emptyTable({ database: { db } }: Platform): Promise<void> {
  await sql`TRUNCATE idempotency_records`.execute(db);
  await sql`CHECKPOINT`.execute(db);
}

/** Throws unless a commit is on the disk when it is answered: anything else would be another bench. */
export async function requireDurable({ database: { db } }: Platform): Promise<void> {
  const { rows } = await sql<{ setting: string }>`
    SELECT current_setting('fsync') || ' ' || current_setting('synchronous_commit') || ' '
      || current_setting('full_page_writes') AS setting`.execute(db);
  if (rows[0]?.setting !== 'on on on')
    throw new Error(`PostgreSQL is not durable: ${rows[0]?.setting ?? ''}`);
}
