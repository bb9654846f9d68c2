import { sql } from 'kysely';
import type { SweepPage, SweepReport, SweepSlot } from '../domain/sweep.ts';
import type { Db } from './database.ts';

/**
 * Slots whose outcome a run has left open, over all periods, a page after a slot. Whoever is at work on a
 * slot just now is left alone; the longer an answer stays away, the less often it is asked for, since
 * reads at Stripe are counted (500 per transaction, docs.stripe.com/rate-limits).
 */
export async function listSweepSlots(db: Db, page: SweepPage): Promise<readonly SweepSlot[]> {
  const { after, limit, everything } = page;
  const { rows } = await sql<SweepSlot>`
    SELECT c.namespace, c.period, c.customer_id AS "customerId", r.control <> 'running' AS "readOnly"
    FROM billing_charges c JOIN billing_runs r USING (namespace, period)
    WHERE c.state IN ('claimed', 'sent', 'indeterminate', 'in_review')
      AND (c.namespace, c.period, c.customer_id) > (${after?.namespace ?? ''}, ${after?.period ?? ''}, ${after?.customerId ?? ''})
      -- a claim that nothing was sent for is its run's, unless that run is over and nobody holds it
      AND (c.state <> 'claimed' OR (r.state = 'completed' AND r.control = 'running'))
      AND (${everything} OR (
        -- a person has decided that it is not to be billed again: only an event, or an order, looks at it
        c.reason IS DISTINCT FROM 'resolved_absent'
        AND c.updated_at < now() - interval '10 minutes'
        AND coalesce(c.looked_at < now() - CASE
          WHEN c.sent_at < now() - interval '24 hours' THEN interval '350 minutes'
          ELSE interval '50 minutes' END, true)))
    ORDER BY c.namespace, c.period, c.customer_id LIMIT ${limit}`.execute(db);
  return rows;
}

/** Notes that a sweep has passed, for status. */
export async function insertSweep(db: Db, report: SweepReport): Promise<void> {
  const { looked, settled, leftOpen, purged } = report;
  await db.insertInto('sweeps').values({ looked, settled, left_open: leftOpen, purged }).execute();
}

/** When somebody last looked, or null: no sweep has passed yet. */
export async function readLastSweep(db: Db): Promise<(SweepReport & { readonly at: Date }) | null> {
  const row = await db
    .selectFrom('sweeps')
    .selectAll()
    .orderBy('id', 'desc')
    .limit(1)
    .executeTakeFirst();
  if (row === undefined) return null;
  const { at, looked, settled, left_open: leftOpen, purged } = row;
  return { at, looked, settled, leftOpen, purged };
}

/** Sweeps kept: a quarter of a year of hourly ones. */
const SWEEPS_KEPT_DAYS = 90;

/** Removes notes of old sweeps, at most `limit`; the newest always stays. Returns how many. */
export async function purgeSweeps(db: Db, limit: number): Promise<number> {
  const { rows } = await sql<{ id: number }>`
    DELETE FROM sweeps WHERE id IN (
      SELECT id FROM sweeps
      WHERE at < now() - make_interval(days => ${SWEEPS_KEPT_DAYS}::integer) AND id < (SELECT max(id) FROM sweeps)
      ORDER BY id LIMIT ${limit})
    RETURNING id`.execute(db);
  return rows.length;
}
