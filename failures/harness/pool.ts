import { Pool, type PoolConfig } from 'pg';

/**
 * As an application has it. A connection that an exhibit cuts, or that is still closing when the server stops,
 * is no reason to die: without a listener, pg throws it at the process.
 */
export function openPool(connectionString: string, more: PoolConfig = {}): Pool {
  const pool = new Pool({ connectionString, max: 5, ...more });
  pool.on('error', () => {});
  return pool;
}
