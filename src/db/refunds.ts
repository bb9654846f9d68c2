import { sql, type Kysely } from 'kysely';
import type { AttemptAnswer } from '../domain/charge.ts';
import type { Db } from './database.ts';
import type { DB } from './schema.ts';

export interface LineRef {
  readonly planId: number;
  readonly line: number;
}

export interface RefundAttempt {
  readonly attemptId: string;
  readonly worker: string;
}

/** The bytes to send, read back from the row that was written when the refund was planned. */
export interface StartedRefund {
  readonly body: string;
  readonly apiVersion: string;
}

/**
 * Commits "this refund is about to be sent" and its attempt, in one statement, before the bytes leave.
 * `first` wins once: the same line by two at once gives null to one of them. `again` is for a line that
 * was sent before and that a look has just not found; a line that has ended gives null.
 */
export async function startRefund(
  db: Db,
  { planId, line }: LineRef,
  send: { readonly which: 'first' | 'again'; readonly attempt: RefundAttempt },
): Promise<StartedRefund | null> {
  const first = send.which === 'first';
  const { rows } = await sql<{ request_body: string; api_version: string }>`
    WITH started AS (
      UPDATE refund_plan_lines SET state = 'sent', first_sent_at = coalesce(first_sent_at, now()), reason = NULL
      WHERE plan_id = ${planId} AND line = ${line}
        AND CASE WHEN ${first} THEN state = 'planned' AND first_sent_at IS NULL
                 ELSE state IN ('sent', 'indeterminate') END
      RETURNING plan_id, line, request_body, api_version
    ), attempt AS (
      INSERT INTO refund_attempts (attempt_id, plan_id, line, worker)
      SELECT ${send.attempt.attemptId}, plan_id, line, ${send.attempt.worker} FROM started
    )
    SELECT request_body, api_version FROM started`.execute(db);
  const row = rows[0];
  return row === undefined ? null : { body: row.request_body, apiVersion: row.api_version };
}

/** Commits a resend of the SDK's and what became of the send before it. */
export async function startRefundResend(
  db: Db,
  { planId, line }: LineRef,
  resend: { readonly attempt: RefundAttempt; readonly lost: AttemptAnswer },
): Promise<void> {
  await db.transaction().execute(async (trx) => {
    await insertAnswer(trx, resend.lost);
    await trx
      .insertInto('refund_attempts')
      .values({
        attempt_id: resend.attempt.attemptId,
        plan_id: planId,
        line,
        worker: resend.attempt.worker,
      })
      .execute();
  });
}

export type RefundOutcome =
  | { readonly state: 'refunded'; readonly refundId: string; readonly refundStatus: string }
  | { readonly state: 'indeterminate' | 'failed' | 'skipped'; readonly reason: string };

/**
 * Writes what became of a refund, the answer it is drawn from, and its audit entry, in one transaction.
 * Twice, or late: a line that has ended keeps its end, and false is answered; `indeterminate` again is
 * written and not logged again.
 */
export async function recordRefund(
  db: Db,
  { planId, line }: LineRef,
  outcome: RefundOutcome & { readonly actor: string; readonly answer: AttemptAnswer | null },
): Promise<boolean> {
  const refunded = outcome.state === 'refunded' ? outcome : null;
  const reason = outcome.state === 'refunded' ? null : outcome.reason;
  const ends = outcome.state !== 'indeterminate';
  return db.transaction().execute(async (trx) => {
    if (outcome.answer !== null) await insertAnswer(trx, outcome.answer);
    const { rows } = await sql<{ written: boolean }>`
      WITH before AS (
        SELECT plan_id, line, state, reason FROM refund_plan_lines
        WHERE plan_id = ${planId} AND line = ${line} FOR UPDATE
      ), ended AS (
        UPDATE refund_plan_lines l SET state = ${outcome.state}::refund_state,
          refund_id = ${refunded?.refundId ?? null}, refund_status = ${refunded?.refundStatus ?? null},
          reason = ${reason}, finished_at = CASE WHEN ${ends} THEN now() END
        FROM before b
        WHERE l.plan_id = b.plan_id AND l.line = b.line
          AND CASE WHEN ${outcome.state} = 'skipped' THEN b.state = 'planned'
                   ELSE b.state IN ('sent', 'indeterminate') END
        RETURNING l.*, b.state AS state_before, b.reason AS reason_before
      ), log AS (
        INSERT INTO audit_log (actor, action, namespace, period, customer_id, amount_minor, currency, reason, details)
        SELECT ${outcome.actor}, 'refund.' || ${outcome.state}, namespace, period, customer_id, amount_minor, currency,
          ${reason}, jsonb_build_object('plan', plan_id, 'line', line, 'charge', charge_id, 'kept', kept_charge_id,
            'refund', refund_id)
        FROM ended WHERE (state_before, reason_before) IS DISTINCT FROM (state, reason)
      )
      SELECT EXISTS (SELECT FROM ended) AS written`.execute(trx);
    return rows[0]?.written === true;
  });
}

async function insertAnswer(db: Db, answer: AttemptAnswer): Promise<void> {
  await db
    .insertInto('refund_attempt_answers')
    .values({
      attempt_id: answer.attemptId,
      http_status: answer.httpStatus,
      error: answer.error,
      stripe_request_id: answer.stripeRequestId,
      replayed: answer.replayed,
      duration_ms: answer.durationMs,
    })
    .onConflict((conflict) => conflict.doNothing())
    .execute();
}

/**
 * Runs the work while no other process executes the same plan; null when one does. The lock belongs to
 * a connection, so a killed process gives it back at once. It keeps order; what keeps money safe is the
 * fence of {@link startRefund} and the key.
 */
export async function withPlanLocked<T>(
  db: Kysely<DB>,
  planId: number,
  work: () => Promise<T>,
): Promise<{ readonly result: T } | null> {
  return db.connection().execute(async (connection) => {
    const { rows } = await sql<{ locked: boolean }>`
      SELECT pg_try_advisory_lock(hashtext('chargeonce refund plan'), ${planId}::integer) AS locked`.execute(
      connection,
    );
    if (rows[0]?.locked !== true) return null;
    try {
      return { result: await work() };
    } finally {
      await sql`SELECT pg_advisory_unlock(hashtext('chargeonce refund plan'), ${planId}::integer)`
        .execute(connection)
        // Back in the pool, the connection would keep the lock: it ends instead, and the lock with it.
        .catch(() => sql`SELECT pg_terminate_backend(pg_backend_pid())`.execute(connection))
        // It has ended by now, if not before.
        .catch(() => {});
    }
  });
}
