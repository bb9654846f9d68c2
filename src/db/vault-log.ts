import { sql, type RawBuilder } from 'kysely';
import type { Db } from './database.ts';
import type { ReservationState } from './schema.ts';
import type { Effect } from './vault-ledger.ts';

/** At least one of the four has to narrow the log down. */
export interface LogQuery {
  readonly keyId?: string;
  readonly idempotencyKey?: string;
  readonly customerId?: string;
  readonly period?: string;
  readonly limit: number;
}

/** A request with its answer, and where its reservation stands now. */
export interface LogRow {
  readonly requestId: string;
  readonly at: Date;
  readonly keyId: string;
  readonly idempotencyKey: string | null;
  readonly attemptId: string | null;
  readonly method: string;
  readonly path: string;
  /** 'forward', or the code of the refusal: nothing went out then */
  readonly decision: string;
  readonly amountMinor: number | null;
  readonly currency: string | null;
  readonly namespace: string | null;
  readonly period: string | null;
  readonly customerId: string | null;
  /** null: no answer is written down (yet), so nobody knows whether it went out */
  readonly answer: LogAnswer | null;
  readonly reservation: LogReservation | null;
}

export interface LogAnswer {
  readonly at: Date;
  readonly status: number | null;
  readonly error: string | null;
  readonly stripeRequestId: string | null;
  readonly replayed: boolean;
  readonly effect: Effect;
  readonly durationMs: number;
}

interface LogReservation {
  readonly id: number;
  readonly state: ReservationState;
  readonly reason: string;
  readonly objectId: string | null;
}

interface FlatRow {
  request_id: string;
  at: Date;
  key_id: string;
  idempotency_key: string | null;
  attempt_id: string | null;
  method: string;
  path: string;
  decision: string;
  amount_minor: number | null;
  currency: string | null;
  namespace: string | null;
  period: string | null;
  customer_id: string | null;
  answered_at: Date | null;
  status: number | null;
  error: string | null;
  stripe_request_id: string | null;
  replayed: boolean | null;
  effect: Effect | null;
  duration_ms: number | null;
  reservation_id: number | null;
  state: ReservationState | null;
  reason: string | null;
  object_id: string | null;
}

/** The newest `limit` requests that fit, oldest first. */
export async function readVaultLog(db: Db, query: LogQuery): Promise<readonly LogRow[]> {
  const { rows } = await sql<FlatRow>`
    WITH page AS (
      SELECT * FROM vault_requests q WHERE ${sql.join(conditionsOf(query), sql` AND `)}
      ORDER BY q.at DESC, q.request_id LIMIT ${query.limit})
    SELECT q.request_id, q.at, q.key_id, q.idempotency_key, q.attempt_id, q.method, q.path, q.decision,
      q.amount_minor, q.currency, q.namespace, q.period, q.customer_id,
      a.at AS answered_at, a.status, a.error, a.stripe_request_id, a.replayed, a.effect, a.duration_ms,
      r.reservation_id, r.state, r.reason, r.object_id
    FROM page q LEFT JOIN vault_answers a USING (request_id)
      LEFT JOIN vault_reservations r ON r.reservation_id = q.reservation_id
    ORDER BY q.at, q.request_id`.execute(db);
  return rows.map((row) => rowOf(row));
}

function conditionsOf(query: LogQuery): RawBuilder<unknown>[] {
  const conditions: RawBuilder<unknown>[] = [];
  if (query.keyId !== undefined) conditions.push(sql`q.key_id = ${query.keyId}`);
  if (query.idempotencyKey !== undefined)
    conditions.push(sql`q.idempotency_key = ${query.idempotencyKey}`);
  if (query.customerId !== undefined) conditions.push(sql`q.customer_id = ${query.customerId}`);
  if (query.period !== undefined) conditions.push(sql`q.period = ${query.period}`);
  if (conditions.length === 0) throw new TypeError('the vault log is never read as a whole');
  return conditions;
}

function rowOf(row: FlatRow): LogRow {
  return {
    requestId: row.request_id,
    at: row.at,
    keyId: row.key_id,
    idempotencyKey: row.idempotency_key,
    attemptId: row.attempt_id,
    method: row.method,
    path: row.path,
    decision: row.decision,
    amountMinor: row.amount_minor,
    currency: row.currency,
    namespace: row.namespace,
    period: row.period,
    customerId: row.customer_id,
    answer: answerOf(row),
    reservation: reservationOf(row),
  };
}

function answerOf(row: FlatRow): LogAnswer | null {
  if (row.answered_at === null || row.effect === null || row.duration_ms === null) return null;
  return {
    at: row.answered_at,
    status: row.status,
    error: row.error,
    stripeRequestId: row.stripe_request_id,
    replayed: row.replayed === true,
    effect: row.effect,
    durationMs: row.duration_ms,
  };
}

function reservationOf(row: FlatRow): LogReservation | null {
  if (row.reservation_id === null || row.state === null || row.reason === null) return null;
  return {
    id: row.reservation_id,
    state: row.state,
    reason: row.reason,
    objectId: row.object_id,
  };
}
