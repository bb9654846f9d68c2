import { Pool } from 'pg';
import type { TemptingWorld } from '../harness/tempting-world.ts';

/** The table of the layers that keep answers by key; without a status, the request is under way. */
const SCHEMA = 'CREATE TABLE answers (key text PRIMARY KEY, status integer, body jsonb)';

/** An empty table, for as long as the work takes. */
export async function withAnswers(
  world: TemptingWorld,
  work: (pool: Pool) => Promise<void>,
): Promise<void> {
  const pool = new Pool({ connectionString: await world.database(), max: 4 });
  try {
    await pool.query(SCHEMA);
    await work(pool);
  } finally {
    await pool.end();
  }
}
