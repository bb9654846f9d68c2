import { Client } from 'pg';

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
