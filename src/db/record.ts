import { sql } from 'kysely';
import type { AttemptAnswer, ChargeOutcome, SlotState } from '../domain/charge.ts';
import type { SlotRef } from '../domain/ids.ts';
import type { Db } from './database.ts';
import { ANSWER_COLUMNS, answerRow } from './sends.ts';

export interface OutcomeToRecord {
  readonly generation: number;
  readonly result: ChargeOutcome;
  readonly answer: AttemptAnswer | null;
  readonly actor: string;
}

/** What the row says after record: written now, or already settled by whoever came first. */
export type Recorded =
  | { readonly kind: 'recorded' }
  | {
      readonly kind: 'alreadySettled';
      readonly state: SlotState;
      readonly chargeId: string | null;
    };

/**
 * Writes an outcome into its slot, its generation, its last attempt and the audit log in one
 * statement, fenced by generation and state. Twice: the second finds the slot settled and reads it.
 */
export async function recordOutcome(
  db: Db,
  slot: SlotRef,
  outcome: OutcomeToRecord,
): Promise<Recorded> {
  const { result } = outcome;
  const charged = result.outcome === 'charged' ? result : null;
  const reason = result.outcome === 'charged' ? null : result.reason;
  const advice = result.outcome === 'charged' ? null : result.advice;
  const intent = 'paymentIntentId' in result ? result.paymentIntentId : null;
  const generationCharge =
    result.outcome === 'declined' ? result.declinedChargeId : (charged?.chargeId ?? null);
  // blocked keeps its generation open for the same key; indeterminate is not an answer.
  const closes = result.outcome !== 'indeterminate' && result.outcome !== 'blocked';
  // Stripe's own answer; a claim that was never sent is put in doubt before one settles it.
  const answered = result.outcome === 'charged' || result.outcome === 'declined';
  const { rows } = await sql<{ written: boolean }>`
    WITH slot AS (
      UPDATE billing_charges SET state = ${result.outcome}::slot_state, charge_id = ${charged?.chargeId ?? null},
        payment_intent_id = coalesce(payment_intent_id, ${intent}), reason = ${reason}, advice = ${advice},
        settled_at = CASE WHEN ${closes} THEN now() END, updated_at = now()
      WHERE namespace = ${slot.namespace} AND period = ${slot.period} AND customer_id = ${slot.customerId}
        AND generation = ${outcome.generation}
        AND (state IN ('sent', 'indeterminate') OR (state = 'claimed' AND NOT ${answered}) OR (state = 'in_review' AND ${closes})
          -- a success that Stripe shows is the truth, also after a refusal
          OR (state IN ('declined', 'misconfigured', 'blocked') AND ${charged !== null}))
      RETURNING namespace, period, customer_id, payment_intent_id
    ), generation AS (
      UPDATE charge_generations g SET finished_at = now(),
        outcome = CASE
          WHEN g.operation = 'create' AND slot.payment_intent_id IS NOT NULL THEN 'created'
          WHEN g.first_sent_at IS NULL AND ${charged === null} THEN 'absent'
          ELSE ${result.outcome} END::generation_outcome,
        reason = ${reason},
        charge_id = CASE WHEN g.operation = 'confirm' THEN ${generationCharge} END,
        stripe_request_id = coalesce(${outcome.answer?.stripeRequestId ?? null}, g.stripe_request_id)
      FROM slot
      WHERE ${closes} AND g.outcome IS NULL AND g.namespace = slot.namespace
        AND g.period = slot.period AND g.customer_id = slot.customer_id
    ), answer AS (
      INSERT INTO charge_attempt_answers (${ANSWER_COLUMNS})
      SELECT a.* FROM (VALUES ${answerRow(outcome.answer)}) AS a
      WHERE a.column1 IS NOT NULL AND EXISTS (SELECT FROM slot)
      ON CONFLICT DO NOTHING
    ), log AS (
      INSERT INTO audit_log (actor, action, namespace, period, customer_id, amount_minor, currency, reason, details)
      SELECT ${outcome.actor}, 'slot.' || ${result.outcome}, i.namespace, i.period, i.customer_id,
        i.amount_minor, i.currency, ${reason},
        jsonb_build_object('generation', ${outcome.generation}::integer, 'charge', ${generationCharge}::text)
      FROM slot JOIN billing_items i USING (namespace, period, customer_id)
    )
    SELECT EXISTS (SELECT FROM slot) AS written`.execute(db);
  if (rows[0]?.written === true) return { kind: 'recorded' };
  const found = await db
    .selectFrom('billing_charges')
    .select(['state', 'charge_id', 'generation'])
    .where('namespace', '=', slot.namespace)
    .where('period', '=', slot.period)
    .where('customer_id', '=', slot.customerId)
    .executeTakeFirstOrThrow();
  if (answered && found.state === 'claimed' && found.generation === outcome.generation) {
    await doubtClaim(db, slot, outcome.generation);
    return recordOutcome(db, slot, outcome);
  }
  return { kind: 'alreadySettled', state: found.state, chargeId: found.charge_id };
}

/**
 * A slot that waits to be sent and of which Stripe shows an answer already (somebody confirmed its intent by hand, a
 * send of long ago arrived): it is in doubt before it is settled. Cut off in between, a look settles it.
 */
async function doubtClaim(db: Db, slot: SlotRef, generation: number): Promise<void> {
  await db
    .updateTable('billing_charges')
    .set({
      state: 'indeterminate',
      reason: 'answered_before_sent',
      advice: 'reconcile',
      updated_at: sql`now()`,
    })
    .where('namespace', '=', slot.namespace)
    .where('period', '=', slot.period)
    .where('customer_id', '=', slot.customerId)
    .where('generation', '=', generation)
    .where('state', '=', 'claimed')
    .execute();
}
