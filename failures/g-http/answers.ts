import type { Pool } from 'pg';
import { openPool } from '../harness/pool.ts';
import type { TemptingWorld } from '../harness/tempting-world.ts';

/** The table of the layers that keep answers by key; without a status, the request is under way. */
const SCHEMA = 'CREATE TABLE answers (key text PRIMARY KEY, status integer, body jsonb)';

/** An empty table, for as long as the work takes. */
export async function withAnswers(
  world: TemptingWorld,
  work: (pool: Pool) => Promise<void>,
): Promise<void> {
  const pool = openPool(await world.database());
  try {
    await pool.query(SCHEMA);
    await work(pool);
  } finally {
    await pool.end();
  }
}
