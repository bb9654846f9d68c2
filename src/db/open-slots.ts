import { sql, type Kysely } from 'kysely';
import type { CustomerId } from '../domain/customer-id.ts';
import type { RunRef } from '../domain/ids.ts';
import type { DB } from './schema.ts';

/**
 * Customers of the run that nobody has finished, a page after a customer id: outcome unknown, claimed
 * or sent and left, or never claimed at all. Settle rounds go through them, so nobody is forgotten.
 */
export async function listOpenSlots(
  db: Kysely<DB>,
  run: RunRef,
  page: { after: string; limit: number },
): Promise<readonly CustomerId[]> {
  const { rows } = await db.transaction().execute(async (trx) => {
    // When nobody is open, all of the period has been read: seconds at a million customers.
    await sql`SET LOCAL statement_timeout = '9s'`.execute(trx);
    return sql<{ customer_id: string }>`
    SELECT i.customer_id FROM billing_items i
    LEFT JOIN billing_charges c USING (namespace, period, customer_id)
    WHERE i.namespace = ${run.namespace} AND i.period = ${run.period} AND i.customer_id > ${page.after}
      AND (c.state IS NULL OR c.state IN ('claimed', 'sent', 'indeterminate'))
    ORDER BY i.customer_id LIMIT ${page.limit}`.execute(trx);
  });
  // The column's check constraint is the parser of this id.
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion
  return rows.map((row) => row.customer_id as CustomerId);
}
