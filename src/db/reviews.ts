import { sql } from 'kysely';
import type { SlotState } from '../domain/charge.ts';
import type { SlotRef } from '../domain/ids.ts';
import type { Db } from './database.ts';

export interface UnknownOutcome {
  readonly generation: number;
  readonly reason: string;
  /** hours after the first send of the generation's keys that a person is asked */
  readonly reviewAfterHours: number;
}

/**
 * Writes down that Stripe was asked and the outcome is still unknown. Old enough, the slot goes to a
 * person. Never loses an answer: a slot that has one is left as it is. Twice: the second only says
 * when it looked. Returns the slot's state, or null when it has moved on.
 */
export async function noteUnknown(
  db: Db,
  slot: SlotRef,
  unknown: UnknownOutcome,
): Promise<SlotState | null> {
  const { rows } = await sql<{ state: SlotState }>`
    WITH before AS (
      SELECT s.state, (
        SELECT min(g.first_sent_at) FROM charge_generations g
        WHERE g.namespace = s.namespace AND g.period = s.period AND g.customer_id = s.customer_id
          AND g.outcome IS NULL) AS sent
      FROM billing_charges s
      WHERE namespace = ${slot.namespace} AND period = ${slot.period} AND customer_id = ${slot.customerId}
        AND generation = ${unknown.generation} AND state IN ('sent', 'indeterminate', 'in_review')
      FOR UPDATE
    ), slot AS (
      UPDATE billing_charges s SET reason = ${unknown.reason}, looked_at = now(), updated_at = now(),
        state = CASE
          WHEN before.state = 'in_review' THEN 'in_review'::slot_state
          WHEN before.state = 'indeterminate'
            AND before.sent < now() - make_interval(hours => ${unknown.reviewAfterHours}::integer) THEN 'in_review'
          ELSE 'indeterminate' END,
        advice = CASE WHEN before.state = 'indeterminate'
            AND before.sent < now() - make_interval(hours => ${unknown.reviewAfterHours}::integer)
          THEN 'resolve' ELSE coalesce(s.advice, 'reconcile') END
      FROM before
      WHERE namespace = ${slot.namespace} AND period = ${slot.period} AND customer_id = ${slot.customerId}
      RETURNING s.state, before.state AS was
    ), log AS (
      INSERT INTO audit_log (actor, action, namespace, period, customer_id, reason, details)
      SELECT 'run', 'slot.in_review', ${slot.namespace}, ${slot.period}, ${slot.customerId}, ${unknown.reason},
        jsonb_build_object('generation', ${unknown.generation}::integer)
      FROM slot WHERE state = 'in_review' AND was <> 'in_review'
    )
    SELECT state FROM slot`.execute(db);
  return rows[0]?.state ?? null;
}

/**
 * Takes a slot back from review, because Stripe has shown at last that its key may be sent. Twice: the
 * second finds it claimed, or sent by whoever was faster, and changes nothing.
 */
export async function reopenReviewed(db: Db, slot: SlotRef, generation: number): Promise<void> {
  await sql`
    WITH slot AS (
      UPDATE billing_charges SET state = 'claimed', reason = NULL, advice = NULL, updated_at = now()
      WHERE namespace = ${slot.namespace} AND period = ${slot.period} AND customer_id = ${slot.customerId}
        AND generation = ${generation} AND state = 'in_review'
        -- a person may have closed it meanwhile
        AND EXISTS (SELECT FROM charge_generations g
          WHERE g.idempotency_key = billing_charges.idempotency_key AND g.outcome IS NULL)
      RETURNING 1
    )
    INSERT INTO audit_log (actor, action, namespace, period, customer_id, reason, details)
    SELECT 'run', 'slot.reopened', ${slot.namespace}, ${slot.period}, ${slot.customerId},
      'Stripe shows that the key may be sent', jsonb_build_object('generation', ${generation}::integer)
    FROM slot`.execute(db);
}
