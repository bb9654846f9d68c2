import { sql } from 'kysely';
import type { RunRef, SlotRef } from '../domain/ids.ts';
import type { Db } from './database.ts';

/**
 * Takes up what the spend cap refused, under the same keys: one customer's slot, or all of a run. Returns how many
 * those are. Nothing is sent by it, and the cap decides again. Twice: the second finds none.
 */
export async function unblockSlots(db: Db, of: RunRef | SlotRef): Promise<number> {
  const { rows } = await sql<{ unblocked: number }>`
    WITH slots AS (
      UPDATE billing_charges SET state = 'sent', reason = NULL, advice = NULL, settled_at = NULL, updated_at = now()
      WHERE namespace = ${of.namespace} AND period = ${of.period} AND state = 'blocked'
        AND (${'customerId' in of ? of.customerId : null}::text IS NULL
          OR customer_id = ${'customerId' in of ? of.customerId : null})
      RETURNING 1
    )
    SELECT count(*)::integer AS unblocked FROM slots`.execute(db);
  return rows[0]?.unblocked ?? 0;
}
