import type { Pool } from 'pg';

/** Runs a job, or does not, as the database's lock allows. */
export type WithLock = (pool: Pool, name: string, job: () => Promise<void>) => Promise<void>;

/** Only one at a time gets the lock; the others go home. */
export async function withLockOfPool(pool: Pool, name: string, job: () => Promise<void>) {
  const { rows } = await pool.query<{ locked: boolean }>(
    'SELECT pg_try_advisory_lock(hashtext($1)) AS locked',
    [name],
  );
  if (rows[0]?.locked !== true) return;
  try {
    await job();
  } finally {
    await pool.query('SELECT pg_advisory_unlock(hashtext($1))', [name]);
  }
}

/** The lock on a connection of its own, which nobody else can get hold of; the others wait their turn. */
export async function withLockOfSession(pool: Pool, name: string, job: () => Promise<void>) {
  const session = await pool.connect();
  session.on('error', () => {});
  try {
    await session.query('SELECT pg_advisory_lock(hashtext($1))', [name]);
    await job();
  } finally {
    // The end of the session gives the lock back, whatever has become of it.
    session.release(true);
  }
}
