import { readdir } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { runner } from 'node-pg-migrate';
import pg from 'pg';

const MIGRATIONS = fileURLToPath(new URL('../../migrations', import.meta.url));
const MIGRATIONS_TABLE = 'schema_migrations';

/** Names of the migrations this database still lacks, oldest first. Changes nothing. */
export async function pendingMigrations(databaseUrl: string): Promise<readonly string[]> {
  return withClient(databaseUrl, async (client) => {
    const files = await readdir(MIGRATIONS);
    const names = files.filter((file) => file.endsWith('.sql')).map((file) => file.slice(0, -4));
    const table = await client.query('SELECT to_regclass($1) AS found', [MIGRATIONS_TABLE]);
    if (table.rows[0]?.found === null) return names.sort();
    const applied = await client.query<{ name: string }>(`SELECT name FROM ${MIGRATIONS_TABLE}`);
    const known = new Set(applied.rows.map((row) => row.name));
    return names.filter((name) => !known.has(name)).sort();
  });
}

/**
 * Brings the schema up to date and names what it applied. Twice, or by two at once: the second waits
 * for the first's advisory lock and finds nothing to do.
 */
export async function migrate(databaseUrl: string): Promise<readonly string[]> {
  return withClient(databaseUrl, async (client) => {
    // A migration that waits behind a long transaction would block every later query with it.
    await client.query("SET lock_timeout = '15s'");
    const applied = await runner({
      dbClient: client,
      dir: MIGRATIONS,
      migrationsTable: MIGRATIONS_TABLE,
      direction: 'up',
      singleTransaction: true,
      advisoryLockMode: 'wait',
      logger: silent,
    });
    return applied.map((migration) => migration.name);
  });
}

async function withClient<T>(
  databaseUrl: string,
  work: (client: pg.Client) => Promise<T>,
): Promise<T> {
  const client = new pg.Client({ connectionString: databaseUrl, connectionTimeoutMillis: 10_000 });
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}

const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
