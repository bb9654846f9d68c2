import { sql } from 'kysely';
import type { AttemptAnswer, SlotState } from '../domain/charge.ts';
import type { SlotRef } from '../domain/ids.ts';
import type { Db } from './database.ts';

/**
 * Stripe may prune a key once it is 24 h old, and then executes it again. One hour of margin: within
 * this window of the first send a key may be sent, after it only reconcile may look.
 */
export const SEND_WINDOW = '23 hours';

interface GenerationFacts {
  readonly key: string;
  /** a send may have left before: its outcome is to be looked up first */
  readonly sentBefore: boolean;
  /** the key is younger than 23 h by the database clock, or was never sent */
  readonly windowOpen: boolean;
  readonly firstSentAt: Date | null;
  /**
   * Stripe has answered this key with a saved 5xx: whatever the execution did, the same key will never
   * bring another answer (docs.stripe.com/api/idempotent_requests)
   */
  readonly spent: boolean;
  readonly open: boolean;
}

/** A slot with what is needed to send or to look up its current generation. */
export interface ChargeFacts {
  readonly slot: SlotRef;
  readonly state: SlotState;
  readonly generation: number;
  readonly paymentIntentId: string | null;
  readonly chargeId: string | null;
  readonly reason: string | null;
  readonly stripeCustomerId: string;
  readonly amountMinor: number;
  readonly currency: string;
  readonly create: GenerationFacts;
  readonly confirm: GenerationFacts;
  /**
   * charges that earlier confirms were declined with, so that an old decline is not read as a new one;
   * null for a confirm whose answer named none
   */
  readonly earlierCharges: readonly (string | null)[];
}

/** Everything the charge and reconcile activities decide on, in one read; null when there is no slot with keys. */
export async function readChargeFacts(db: Db, slot: SlotRef): Promise<ChargeFacts | null> {
  const { rows } = await sql<FactsRow>`
    SELECT s.state, s.generation, s.payment_intent_id, s.charge_id, s.reason,
           i.stripe_customer_id, i.amount_minor, i.currency,
           c.idempotency_key AS create_key, ${sentAt('c')} AS create_sent_at, c.outcome IS NULL AS create_open,
           ${inWindow('c')} AS create_window,
           f.idempotency_key AS confirm_key, ${sentAt('f')} AS confirm_sent_at, f.outcome IS NULL AS confirm_open,
           ${inWindow('f')} AS confirm_window,
           ${savedServerError('c')} AS create_spent, ${savedServerError('f')} AS confirm_spent,
           CASE WHEN s.generation = 1 THEN '{}'::text[] ELSE ARRAY(
             SELECT g.charge_id FROM charge_generations g
             WHERE g.namespace = s.namespace AND g.period = s.period AND g.customer_id = s.customer_id
               AND g.generation < s.generation AND g.operation = 'confirm' AND g.first_sent_at IS NOT NULL) END AS earlier_charges
    FROM billing_charges s
    JOIN billing_items i USING (namespace, period, customer_id)
    JOIN charge_generations f ON f.idempotency_key = s.idempotency_key
    JOIN LATERAL (
      SELECT g.* FROM charge_generations g
      WHERE g.namespace = s.namespace AND g.period = s.period AND g.customer_id = s.customer_id
        AND g.operation = 'create'
      ORDER BY g.generation DESC LIMIT 1) c ON true
    WHERE s.namespace = ${slot.namespace} AND s.period = ${slot.period} AND s.customer_id = ${slot.customerId}`.execute(
    db,
  );
  const row = rows[0];
  return row === undefined ? null : toFacts(slot, row);
}

/** Whether a send of a key may have come to Stripe: one that the vault refused has not. A key without attempts may have. */
function reachedStripe(generation: Generation) {
  return sql`coalesce((SELECT bool_or(n.never_reached_stripe IS NOT TRUE)
    FROM charge_attempts a LEFT JOIN charge_attempt_answers n USING (attempt_id)
    WHERE a.idempotency_key = ${sql.ref(`${generation}.idempotency_key`)}), true)`;
}

/** When a key was first sent to Stripe; null while it never was. Of a key that was never sent it costs nothing. */
function sentAt(generation: Generation) {
  const first = sql.ref(`${generation}.first_sent_at`);
  return sql`CASE WHEN ${first} IS NOT NULL AND ${reachedStripe(generation)} THEN ${first} END`;
}

/** Whether a key may be sent: it is young enough by the database clock, or Stripe has never seen it. */
function inWindow(generation: Generation) {
  const first = sql.ref(`${generation}.first_sent_at`);
  return sql`CASE WHEN coalesce(${first} > now() - ${SEND_WINDOW}::interval, true) THEN true
    ELSE NOT ${reachedStripe(generation)} END`;
}

/** When a key that is sent now was first sent: a time out of its window is one at which the vault refused it. */
const FIRST_SENT_AT = sql`CASE WHEN first_sent_at > now() - ${SEND_WINDOW}::interval THEN first_sent_at ELSE now() END`;

/** Aliases of charge_generations: c, f in the facts, g where a send starts. */
type Generation = 'c' | 'f' | 'g';

/** Whether a key's saved reply is a server error. Only asked of slots in doubt: the hot path pays nothing. */
function savedServerError(generation: Generation) {
  return sql`(s.state IN ('sent', 'indeterminate', 'in_review') AND EXISTS (
             SELECT FROM charge_attempts a JOIN charge_attempt_answers n USING (attempt_id)
             WHERE a.idempotency_key = ${sql.ref(`${generation}.idempotency_key`)} AND n.replayed AND n.http_status >= 500))`;
}

interface FactsRow {
  state: SlotState;
  generation: number;
  payment_intent_id: string | null;
  charge_id: string | null;
  reason: string | null;
  stripe_customer_id: string;
  amount_minor: number;
  currency: string;
  create_key: string;
  create_sent_at: Date | null;
  create_open: boolean;
  create_window: boolean;
  create_spent: boolean;
  confirm_key: string;
  confirm_sent_at: Date | null;
  confirm_open: boolean;
  confirm_window: boolean;
  confirm_spent: boolean;
  earlier_charges: (string | null)[];
}

function toFacts(slot: SlotRef, row: FactsRow): ChargeFacts {
  return {
    slot,
    state: row.state,
    generation: row.generation,
    paymentIntentId: row.payment_intent_id,
    chargeId: row.charge_id,
    reason: row.reason,
    stripeCustomerId: row.stripe_customer_id,
    amountMinor: row.amount_minor,
    currency: row.currency,
    create: {
      key: row.create_key,
      sentBefore: row.create_sent_at !== null,
      windowOpen: row.create_window,
      firstSentAt: row.create_sent_at,
      spent: row.create_spent,
      open: row.create_open,
    },
    confirm: {
      key: row.confirm_key,
      sentBefore: row.confirm_sent_at !== null,
      windowOpen: row.confirm_window,
      firstSentAt: row.confirm_sent_at,
      spent: row.confirm_spent,
      open: row.confirm_open,
    },
    earlierCharges: row.earlier_charges,
  };
}

export interface AttemptStart {
  readonly attemptId: string;
  readonly activityAttempt: number;
  readonly worker: string;
}

/** The bytes to send, read back from the row that was written at claim. */
export interface StartedSend {
  readonly body: string;
  readonly apiVersion: string;
}

/**
 * Commits "this key is about to be sent" and the attempt, in one statement, before the bytes leave.
 * Null when it must not be sent: another generation, a settled slot, or a key older than 23 h.
 */
export async function startSend(
  db: Db,
  slot: SlotRef,
  send: { key: string; generation: number; attempt: AttemptStart },
): Promise<StartedSend | null> {
  const { rows } = await sql<{ request_body: string; api_version: string }>`
    WITH slot AS (
      UPDATE billing_charges s SET state = 'sent', sent_at = coalesce(sent_at, now()), reason = NULL,
        advice = NULL, settled_at = NULL, updated_at = now()
      WHERE namespace = ${slot.namespace} AND period = ${slot.period} AND customer_id = ${slot.customerId}
        AND generation = ${send.generation} AND state IN ('claimed', 'sent', 'indeterminate', 'blocked')
        AND EXISTS (SELECT FROM charge_generations g WHERE g.idempotency_key = ${send.key}
          AND g.namespace = s.namespace AND g.period = s.period AND g.customer_id = s.customer_id
          AND g.outcome IS NULL AND ${inWindow('g')})
      RETURNING 1
    ), generation AS (
      UPDATE charge_generations SET first_sent_at = ${FIRST_SENT_AT}
      WHERE idempotency_key = ${send.key} AND EXISTS (SELECT FROM slot)
      RETURNING idempotency_key, request_body, api_version
    ), attempt AS (
      INSERT INTO charge_attempts (attempt_id, idempotency_key, activity_attempt, worker)
      SELECT ${send.attempt.attemptId}, idempotency_key, ${send.attempt.activityAttempt}, ${send.attempt.worker}
      FROM generation
    )
    SELECT request_body, api_version FROM generation`.execute(db);
  const row = rows[0];
  return row === undefined ? null : { body: row.request_body, apiVersion: row.api_version };
}

/**
 * Commits the PaymentIntent's id and, in the same statement, the start of its confirm. The id is safe
 * before any money moves, so that every later attempt confirms this intent and never creates another.
 * Null when the slot has moved on; the intent is then left unconfirmed, which charges nobody.
 */
export async function keepIntentAndStartConfirm(
  db: Db,
  slot: SlotRef,
  kept: {
    generation: number;
    createKey: string;
    confirmKey: string;
    paymentIntentId: string;
    answer: AttemptAnswer | null;
    attempt: AttemptStart;
  },
): Promise<StartedSend | null> {
  const { rows } = await sql<{ request_body: string; api_version: string }>`
    WITH slot AS (
      UPDATE billing_charges SET payment_intent_id = ${kept.paymentIntentId}, updated_at = now()
      WHERE namespace = ${slot.namespace} AND period = ${slot.period} AND customer_id = ${slot.customerId}
        AND generation = ${kept.generation} AND state = 'sent'
        AND (payment_intent_id IS NULL OR payment_intent_id = ${kept.paymentIntentId})
      RETURNING 1
    ), answer AS (
      INSERT INTO charge_attempt_answers (${ANSWER_COLUMNS})
      SELECT a.* FROM (VALUES ${answerRow(kept.answer)}) AS a WHERE a.column1 IS NOT NULL
      ON CONFLICT DO NOTHING
    ), created AS (
      UPDATE charge_generations SET outcome = 'created', finished_at = now(),
        stripe_request_id = ${kept.answer?.stripeRequestId ?? null}
      WHERE idempotency_key = ${kept.createKey} AND outcome IS NULL AND EXISTS (SELECT FROM slot)
    ), generation AS (
      UPDATE charge_generations g SET first_sent_at = ${FIRST_SENT_AT}
      WHERE idempotency_key = ${kept.confirmKey} AND outcome IS NULL AND EXISTS (SELECT FROM slot)
        AND ${inWindow('g')}
      RETURNING idempotency_key, request_body, api_version
    ), attempt AS (
      INSERT INTO charge_attempts (attempt_id, idempotency_key, activity_attempt, worker)
      SELECT ${kept.attempt.attemptId}, idempotency_key, ${kept.attempt.activityAttempt}, ${kept.attempt.worker}
      FROM generation
    )
    SELECT request_body, api_version FROM generation`.execute(db);
  const row = rows[0];
  return row === undefined ? null : { body: row.request_body, apiVersion: row.api_version };
}

/** Records the attempt of the SDK's own resend, and that its first send was lost, before it leaves. */
export async function startResend(
  db: Db,
  key: string,
  resend: { attempt: AttemptStart; lost: AttemptAnswer },
): Promise<void> {
  await sql`
    WITH answer AS (
      INSERT INTO charge_attempt_answers (${ANSWER_COLUMNS})
      VALUES ${answerRow(resend.lost)} ON CONFLICT DO NOTHING
    )
    INSERT INTO charge_attempts (attempt_id, idempotency_key, activity_attempt, worker)
    VALUES (${resend.attempt.attemptId}, ${key}, ${resend.attempt.activityAttempt}, ${resend.attempt.worker})`.execute(
    db,
  );
}

/** Records what came back for an attempt that did not decide the slot. Twice: the first answer stays. */
export async function recordAnswer(db: Db, answer: AttemptAnswer): Promise<void> {
  await sql`
    INSERT INTO charge_attempt_answers (${ANSWER_COLUMNS})
    VALUES ${answerRow(answer)} ON CONFLICT DO NOTHING`.execute(db);
}

/** The columns of {@link answerRow}, in its order. */
export const ANSWER_COLUMNS = sql.raw(
  'attempt_id, http_status, error, stripe_request_id, replayed, duration_ms, never_reached_stripe',
);

/** An answer as a row of values; all null when there is none. */
export function answerRow(answer: AttemptAnswer | null) {
  return sql`(${answer?.attemptId ?? null}::text, ${answer?.httpStatus ?? null}::integer,
    ${answer?.error ?? null}::text, ${answer?.stripeRequestId ?? null}::text,
    ${answer?.replayed ?? false}::boolean, ${answer?.durationMs ?? 0}::integer,
    ${answer?.neverReachedStripe ?? false}::boolean)`;
}
