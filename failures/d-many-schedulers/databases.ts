import { Client, Pool } from 'pg';

/** Runs statements on a connection of its own. */
export async function runSql(connectionString: string, statements: string): Promise<void> {
  const client = new Client({ connectionString });
  await client.connect();
  try {
    await client.query(statements);
  } finally {
    await client.end();
  }
}

/** As an application has it. A connection that the exhibit cuts is no reason to die. */
export function openPool(connectionString: string): Pool {
  const pool = new Pool({ connectionString, max: 5 });
  pool.on('error', () => {});
  return pool;
}
