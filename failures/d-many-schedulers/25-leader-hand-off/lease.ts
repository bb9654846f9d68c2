import type { Pool } from 'pg';

export const SCHEMA = `
  CREATE TABLE leases (name text PRIMARY KEY, holder text NOT NULL, expires_at timestamptz NOT NULL);
  CREATE TABLE billed (customer_id text, period text, PRIMARY KEY (customer_id, period))`;

export interface Lease {
  readonly holder: string;
  readonly leaseMs: number;
}

/** Takes the lease, or renews it. False while another one has it. The database's clock decides. */
export async function hold(pool: Pool, { holder, leaseMs }: Lease): Promise<boolean> {
  const { rowCount } = await pool.query(
    `INSERT INTO leases VALUES ('billing', $1, now() + $2 * interval '1 millisecond')
     ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, expires_at = excluded.expires_at
     WHERE leases.holder = excluded.holder OR leases.expires_at < now()`,
    [holder, leaseMs],
  );
  return rowCount === 1;
}
