import { Client, escapeIdentifier, escapeLiteral } from 'pg';

/** Takes a database away: its sessions end, and no new one begins, until the returned function gives it back. */
export async function takeAway(databaseUrl: string): Promise<() => Promise<void>> {
  const name = new URL(databaseUrl).pathname.slice(1);
  const allow = async (allowed: boolean): Promise<void> => {
    const admin = new URL(databaseUrl);
    admin.pathname = '/postgres';
    const client = new Client({ connectionString: admin.href });
    await client.connect();
    await client.query(`ALTER DATABASE ${escapeIdentifier(name)} ALLOW_CONNECTIONS ${allowed}`);
    if (!allowed)
      await client.query(
        `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = ${escapeLiteral(name)}`,
      );
    await client.end();
  };
  await allow(false);
  return () => allow(true);
}
