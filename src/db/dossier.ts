import { sql } from 'kysely';
import type { SlotState } from '../domain/charge.ts';
import type { SlotRef } from '../domain/ids.ts';
import type { Db } from './database.ts';

/** Everything that is known of one slot, in the order in which it happened. Times are the database's. */
export interface Dossier {
  readonly state: SlotState;
  readonly generation: number;
  readonly reason: string | null;
  readonly paymentIntentId: string | null;
  readonly chargeId: string | null;
  readonly stripeCustomerId: string;
  readonly amountMinor: number;
  readonly currency: string;
  readonly events: readonly DossierEvent[];
}

interface DossierEvent {
  readonly at: Date;
  readonly what: string;
  readonly details: string;
}

/** The slot's dossier, or null when nobody has claimed it. Reads only. */
export async function readDossier(db: Db, slot: SlotRef): Promise<Dossier | null> {
  const { rows } = await sql<Omit<Dossier, 'events'>>`
    SELECT s.state, s.generation, s.reason, s.payment_intent_id AS "paymentIntentId",
      s.charge_id AS "chargeId", i.stripe_customer_id AS "stripeCustomerId",
      i.amount_minor AS "amountMinor", i.currency
    FROM billing_charges s JOIN billing_items i USING (namespace, period, customer_id)
    WHERE s.namespace = ${slot.namespace} AND s.period = ${slot.period} AND s.customer_id = ${slot.customerId}`.execute(
    db,
  );
  const head = rows[0];
  return head === undefined ? null : { ...head, events: await readEvents(db, slot) };
}

async function readEvents(db: Db, slot: SlotRef): Promise<readonly DossierEvent[]> {
  const { rows } = await sql<DossierEvent>`
    WITH keys AS (
      SELECT * FROM charge_generations
      WHERE namespace = ${slot.namespace} AND period = ${slot.period} AND customer_id = ${slot.customerId}
    ), told AS (
      SELECT a.sent_at AS at, 'sent' AS what,
        format('%s, generation %s, attempt %s', k.operation, k.generation, a.attempt_id) AS details
      FROM charge_attempts a JOIN keys k USING (idempotency_key)
      UNION ALL
      SELECT n.answered_at, 'answered', format('%s to %s of generation %s%s%s%s',
        coalesce('HTTP ' || n.http_status, 'no answer'), k.operation, k.generation,
        CASE WHEN n.replayed THEN ', a saved reply' ELSE '' END,
        coalesce(', ' || n.error, ''), coalesce(', ' || n.stripe_request_id, ''))
      FROM charge_attempt_answers n JOIN charge_attempts a USING (attempt_id) JOIN keys k USING (idempotency_key)
      UNION ALL
      SELECT r.read_at, 'looked', format('no effect of generation %s: Stripe showed %s', r.generation, r.sees)
      FROM absence_reads r JOIN keys k USING (idempotency_key)
      UNION ALL
      SELECT at, action, format('by %s%s', actor, coalesce(': ' || reason, ''))
      FROM audit_log
      WHERE namespace = ${slot.namespace} AND period = ${slot.period} AND customer_id = ${slot.customerId}
    )
    SELECT at, what, details FROM told ORDER BY at`.execute(db);
  return rows;
}

/** Slots that wait for a person, oldest first. */
export async function listInReview(
  db: Db,
  run: Pick<SlotRef, 'namespace' | 'period'>,
  limit: number,
): Promise<readonly { readonly customerId: string; readonly reason: string | null }[]> {
  const rows = await db
    .selectFrom('billing_charges')
    .select(['customer_id', 'reason'])
    .where('namespace', '=', run.namespace)
    .where('period', '=', run.period)
    .where('state', '=', 'in_review')
    .orderBy('sent_at')
    .limit(limit)
    .execute();
  return rows.map((row) => ({ customerId: row.customer_id, reason: row.reason }));
}
