import { sql, type Kysely } from 'kysely';
import type { SlotRef } from '../domain/ids.ts';
import type { Db } from './database.ts';
import type { CustomerOutcome } from './run-customers.ts';
import type { ChargeOperation, DB, GenerationOutcome, Json, WebhookResult } from './schema.ts';
import { readVaultLog, type LogRow } from './vault-log.ts';

/** Everything that is known of one customer in one run. Each list is in the order in which it happened. */
export interface Story {
  readonly customer: StoryHead;
  readonly keys: readonly StoryKey[];
  readonly vault: readonly LogRow[];
  readonly looks: readonly StoryLook[];
  readonly events: readonly StoryEvent[];
  readonly resolutions: readonly StoryResolution[];
  readonly refunds: readonly StoryRefund[];
  readonly audit: readonly StoryEntry[];
}

/** The plan's item with its slot. Amounts are minor units. */
interface StoryHead {
  readonly customerId: string;
  readonly stripeCustomerId: string;
  readonly paymentMethodId: string | null;
  readonly description: string | null;
  readonly amountMinor: number;
  readonly currency: string;
  readonly outcome: CustomerOutcome;
  readonly reason: string | null;
  readonly advice: string | null;
  readonly generation: number | null;
  readonly idempotencyKey: string | null;
  readonly paymentIntentId: string | null;
  readonly chargeId: string | null;
  readonly claimedAt: Date | null;
  readonly sentAt: Date | null;
  readonly settledAt: Date | null;
  readonly updatedAt: Date | null;
}

/** One idempotency key and every time that it was sent. */
export interface StoryKey {
  readonly generation: number;
  readonly operation: ChargeOperation;
  readonly idempotencyKey: string;
  readonly apiVersion: string;
  readonly outcome: GenerationOutcome | null;
  readonly reason: string | null;
  readonly chargeId: string | null;
  readonly stripeRequestId: string | null;
  readonly createdAt: Date;
  readonly firstSentAt: Date | null;
  readonly finishedAt: Date | null;
  readonly attempts: readonly StoryAttempt[];
}

export interface StoryAttempt {
  /** X-Attempt-Id */
  readonly attemptId: string;
  readonly activityAttempt: number;
  readonly worker: string;
  readonly sentAt: Date;
  /** null: the reply was lost, or its process died waiting */
  readonly answer: {
    readonly at: Date;
    readonly status: number | null;
    readonly error: string | null;
    readonly stripeRequestId: string | null;
    readonly replayed: boolean;
    readonly neverReachedStripe: boolean;
    readonly durationMs: number;
  } | null;
}

/** A look at Stripe that showed no effect of a key. */
interface StoryLook {
  readonly at: Date;
  readonly generation: number;
  readonly idempotencyKey: string;
  readonly sees: string;
}

interface StoryEvent {
  readonly at: Date;
  readonly eventId: string;
  readonly type: string;
  readonly paymentIntentId: string | null;
  readonly chargeId: string | null;
  readonly state: string;
  readonly result: WebhookResult | null;
  readonly createdAt: Date;
  readonly processedAt: Date | null;
}

interface StoryResolution {
  readonly at: Date;
  readonly generation: number;
  readonly verdict: string;
  readonly chargeId: string | null;
  readonly evidence: string;
  readonly operator: string;
  readonly decides: boolean;
}

interface StoryRefund {
  readonly planId: number;
  readonly plannedAt: Date;
  readonly chargeId: string;
  readonly keptChargeId: string;
  readonly amountMinor: number;
  readonly currency: string;
  readonly state: string;
  readonly refundId: string | null;
  readonly reason: string | null;
  readonly firstSentAt: Date | null;
  readonly finishedAt: Date | null;
}

interface StoryEntry {
  readonly at: Date;
  readonly actor: string;
  readonly action: string;
  readonly reason: string | null;
  readonly details: Json;
}

/** Of each list; a customer has a handful, and ten thousand rows would be a fault of their own. */
const MAX_ROWS = 1_000;

/** The customer's story from one snapshot; null when the plan of the run does not have it. Reads only. */
export async function readStory(db: Kysely<DB>, slot: SlotRef): Promise<Story | null> {
  return db
    .transaction()
    .setIsolationLevel('repeatable read')
    .setAccessMode('read only')
    .execute(async (trx) => {
      const customer = await readHead(trx, slot);
      if (customer === null) return null;
      const keys = await readKeys(trx, slot);
      return {
        customer,
        keys,
        vault: await readVaultRows(trx, slot, keys),
        looks: await readLooks(trx, slot),
        events: await readEvents(trx, slot, customer),
        resolutions: await readResolutions(trx, slot),
        refunds: await readRefunds(trx, slot, customer),
        audit: await readAudit(trx, slot),
      };
    });
}

async function readHead(trx: Db, slot: SlotRef): Promise<StoryHead | null> {
  const { rows } = await sql<StoryHead>`
    SELECT i.customer_id AS "customerId", i.stripe_customer_id AS "stripeCustomerId",
      i.payment_method_id AS "paymentMethodId", i.description, i.amount_minor AS "amountMinor", i.currency,
      coalesce(s.state::text, 'unclaimed') AS outcome, s.reason, s.advice, s.generation,
      s.idempotency_key AS "idempotencyKey", s.payment_intent_id AS "paymentIntentId", s.charge_id AS "chargeId",
      s.claimed_at AS "claimedAt", s.sent_at AS "sentAt", s.settled_at AS "settledAt", s.updated_at AS "updatedAt"
    FROM billing_items i LEFT JOIN billing_charges s USING (namespace, period, customer_id)
    WHERE ${ofSlot(slot, 'i')}`.execute(trx);
  return rows[0] ?? null;
}

async function readKeys(trx: Db, slot: SlotRef): Promise<readonly StoryKey[]> {
  const { rows: keys } = await sql<Omit<StoryKey, 'attempts'>>`
    SELECT g.generation, g.operation, g.idempotency_key AS "idempotencyKey", g.api_version AS "apiVersion", g.outcome,
      g.reason, g.charge_id AS "chargeId", g.stripe_request_id AS "stripeRequestId", g.created_at AS "createdAt",
      g.first_sent_at AS "firstSentAt", g.finished_at AS "finishedAt"
    FROM charge_generations g WHERE ${ofSlot(slot, 'g')}
    ORDER BY g.created_at, g.generation, g.operation LIMIT ${MAX_ROWS}`.execute(trx);
  const attempts = await readAttempts(
    trx,
    keys.map((key) => key.idempotencyKey),
  );
  return keys.map((key) => ({
    ...key,
    attempts: (attempts.get(key.idempotencyKey) ?? []).map((row) => attemptOf(row)),
  }));
}

interface AttemptRow extends Omit<StoryAttempt, 'answer'> {
  readonly idempotencyKey: string;
  readonly answeredAt: Date | null;
  readonly status: number | null;
  readonly error: string | null;
  readonly stripeRequestId: string | null;
  readonly replayed: boolean;
  readonly neverReachedStripe: boolean;
  readonly durationMs: number;
}

async function readAttempts(
  trx: Db,
  keys: readonly string[],
): Promise<ReadonlyMap<string, readonly AttemptRow[]>> {
  const { rows } = await sql<AttemptRow>`
    SELECT a.idempotency_key AS "idempotencyKey", a.attempt_id AS "attemptId",
      a.activity_attempt AS "activityAttempt", a.worker, a.sent_at AS "sentAt", n.answered_at AS "answeredAt",
      n.http_status AS status, n.error, n.stripe_request_id AS "stripeRequestId", n.replayed,
      n.never_reached_stripe AS "neverReachedStripe", n.duration_ms AS "durationMs"
    FROM charge_attempts a LEFT JOIN charge_attempt_answers n USING (attempt_id)
    WHERE a.idempotency_key = ANY (${keys}::text[])
    ORDER BY a.sent_at, a.attempt_id LIMIT ${MAX_ROWS}`.execute(trx);
  return Map.groupBy(rows, (row) => row.idempotencyKey);
}

function attemptOf(row: AttemptRow): StoryAttempt {
  const { attemptId, activityAttempt, worker, sentAt, answeredAt, status, error } = row;
  const { stripeRequestId, replayed, neverReachedStripe, durationMs } = row;
  const answer =
    answeredAt === null
      ? null
      : {
          at: answeredAt,
          status,
          error,
          stripeRequestId,
          replayed,
          neverReachedStripe,
          durationMs,
        };
  return { attemptId, activityAttempt, worker, sentAt, answer };
}

/** What the vault knows: by customer, and by key, since a repeat that it refused names no customer. */
async function readVaultRows(
  trx: Db,
  slot: SlotRef,
  keys: readonly StoryKey[],
): Promise<readonly LogRow[]> {
  const { customerId, period, namespace } = slot;
  const found = new Map<string, LogRow>();
  const named = await readVaultLog(trx, { customerId, period, limit: MAX_ROWS });
  for (const row of named)
    if (row.namespace === null || row.namespace === namespace) found.set(row.requestId, row);
  for (const { idempotencyKey } of keys)
    for (const row of await readVaultLog(trx, { idempotencyKey, limit: MAX_ROWS }))
      found.set(row.requestId, row);
  return [...found.values()].sort((a, b) => a.at.getTime() - b.at.getTime());
}

async function readLooks(trx: Db, slot: SlotRef): Promise<readonly StoryLook[]> {
  const { rows } = await sql<StoryLook>`
    SELECT r.read_at AS at, r.generation, r.idempotency_key AS "idempotencyKey", r.sees
    FROM charge_generations g JOIN absence_reads r USING (idempotency_key)
    WHERE ${ofSlot(slot, 'g')} ORDER BY r.id LIMIT ${MAX_ROWS}`.execute(trx);
  return rows;
}

async function readEvents(
  trx: Db,
  slot: SlotRef,
  { paymentIntentId }: StoryHead,
): Promise<readonly StoryEvent[]> {
  const columns = sql`event_id, type, payment_intent_id, charge_id, state, result, created_at, received_at, processed_at`;
  // Two indexes, one for each half.
  const { rows } = await sql<StoryEvent>`
    SELECT received_at AS at, event_id AS "eventId", type, payment_intent_id AS "paymentIntentId",
      charge_id AS "chargeId", state, result, created_at AS "createdAt", processed_at AS "processedAt"
    FROM (
      SELECT ${columns} FROM webhook_events e WHERE ${ofSlot(slot, 'e')}
      UNION
      SELECT ${columns} FROM webhook_events WHERE payment_intent_id = ${paymentIntentId}) told
    ORDER BY received_at, event_id LIMIT ${MAX_ROWS}`.execute(trx);
  return rows;
}

async function readResolutions(trx: Db, slot: SlotRef): Promise<readonly StoryResolution[]> {
  const { rows } = await sql<StoryResolution>`
    SELECT r.at, r.generation, r.verdict, r.charge_id AS "chargeId", r.evidence, r.operator, r.decides
    FROM slot_resolutions r WHERE ${ofSlot(slot, 'r')} ORDER BY r.id LIMIT ${MAX_ROWS}`.execute(
    trx,
  );
  return rows;
}

/** Charges that were given back because they paid this slot twice. */
async function readRefunds(
  trx: Db,
  slot: SlotRef,
  { chargeId }: StoryHead,
): Promise<readonly StoryRefund[]> {
  const { rows } = await sql<StoryRefund>`
    SELECT l.plan_id AS "planId", p.planned_at AS "plannedAt", l.charge_id AS "chargeId",
      l.kept_charge_id AS "keptChargeId", l.amount_minor AS "amountMinor", l.currency, l.state,
      l.refund_id AS "refundId", l.reason, l.first_sent_at AS "firstSentAt", l.finished_at AS "finishedAt"
    FROM refund_plan_lines l JOIN refund_plans p USING (plan_id)
    WHERE (${ofSlot(slot, 'l')}) OR l.kept_charge_id = ${chargeId}
    ORDER BY l.plan_id, l.line LIMIT ${MAX_ROWS}`.execute(trx);
  return rows;
}

async function readAudit(trx: Db, slot: SlotRef): Promise<readonly StoryEntry[]> {
  const { rows } = await sql<StoryEntry>`
    SELECT a.at, a.actor, a.action, a.reason, a.details FROM audit_log a
    WHERE ${ofSlot(slot, 'a')} ORDER BY a.id LIMIT ${MAX_ROWS}`.execute(trx);
  return rows;
}

/** The rows of a table that name the slot. */
function ofSlot({ namespace, period, customerId }: SlotRef, table: string) {
  const column = (name: string) => sql.ref(`${table}.${name}`);
  return sql`${column('namespace')} = ${namespace} AND ${column('period')} = ${period}
    AND ${column('customer_id')} = ${customerId}`;
}
