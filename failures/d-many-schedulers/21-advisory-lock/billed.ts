import type { Pool } from 'pg';

export const SCHEMA = `
  CREATE TABLE billed (customer_id text, period text, PRIMARY KEY (customer_id, period))`;

export async function isBilled(pool: Pool, customerId: string, period: string): Promise<boolean> {
  const { rowCount } = await pool.query(
    'SELECT 1 FROM billed WHERE customer_id = $1 AND period = $2',
    [customerId, period],
  );
  return rowCount === 1;
}

export async function markBilled(pool: Pool, customerId: string, period: string): Promise<void> {
  await pool.query('INSERT INTO billed VALUES ($1, $2) ON CONFLICT DO NOTHING', [
    customerId,
    period,
  ]);
}
