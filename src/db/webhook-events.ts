import { sql } from 'kysely';
import type { SlotState } from '../domain/charge.ts';
import type { SlotRef } from '../domain/ids.ts';
import type { WebhookFacts } from '../domain/webhook-facts.ts';
import type { Db } from './database.ts';
import type { WebhookResult } from './schema.ts';

/** An event that this caller may process until its lease ends. */
export interface ClaimedEvent {
  readonly eventId: string;
  readonly type: string;
  readonly paymentIntentId: string | null;
  readonly slot: SlotRef | null;
  /** tries, this one included; the fence of what the try writes */
  readonly attempt: number;
  readonly ageMs: number;
}

export interface EventSlot {
  readonly ref: SlotRef;
  readonly state: SlotState;
  readonly paymentIntentId: string | null;
}

export interface WebhookCounts {
  readonly received: number;
  readonly parked: number;
  readonly processed: number;
  /** arrival of the oldest event that is not processed, parked ones included */
  readonly oldestWaiting: Date | null;
  /** the same without those that are parked: how far the processors are behind */
  readonly oldestReceived: Date | null;
}

/**
 * Puts an event into the inbox. The same event again, also by two at once, is one row (`duplicate`);
 * the same id with another content changes nothing (`conflict`).
 */
export async function storeWebhookEvent(
  db: Db,
  event: WebhookFacts,
): Promise<'stored' | 'duplicate' | 'conflict'> {
  const stored = await db
    .insertInto('webhook_events')
    .values({
      event_id: event.eventId,
      type: event.type,
      api_version: event.apiVersion,
      account: event.account,
      livemode: event.livemode,
      created_at: sql`to_timestamp(${event.createdSeconds})`,
      object_id: event.objectId,
      payment_intent_id: event.paymentIntentId,
      charge_id: event.chargeId,
      idempotency_key: event.idempotencyKey,
      namespace: event.slot?.namespace ?? null,
      period: event.slot?.period ?? null,
      customer_id: event.slot?.customerId ?? null,
    })
    .onConflict((conflict) => conflict.column('event_id').doNothing())
    .returning('event_id')
    .executeTakeFirst();
  if (stored !== undefined) return 'stored';
  // A statement of its own: the one that lost the race does not see the winner's row.
  const known = await db
    .selectFrom('webhook_events')
    .select(['type', 'object_id', 'livemode'])
    .where('event_id', '=', event.eventId)
    .executeTakeFirst();
  // Purged between the two: processed long ago, so it is known.
  if (known === undefined) return 'duplicate';
  const same =
    known.type === event.type &&
    known.object_id === event.objectId &&
    known.livemode === event.livemode;
  return same ? 'duplicate' : 'conflict';
}

/**
 * Takes events that are due, oldest first, and locks others out of them for the lease. Whoever dies
 * with a claim leaves an event that is due again when its lease is over. Two at once get different events.
 */
export async function claimWebhookEvents(
  db: Db,
  how: { readonly limit: number; readonly leaseMs: number },
): Promise<readonly ClaimedEvent[]> {
  const { rows } = await sql<{
    event_id: string;
    type: string;
    payment_intent_id: string | null;
    namespace: string | null;
    period: string | null;
    customer_id: string | null;
    attempts: number;
    age_ms: number;
  }>`
    WITH due AS MATERIALIZED (
      SELECT event_id FROM webhook_events
      WHERE state <> 'processed' AND next_try_at <= now()
      ORDER BY next_try_at LIMIT ${how.limit}
      FOR UPDATE SKIP LOCKED)
    UPDATE webhook_events AS event SET
      attempts = event.attempts + 1,
      next_try_at = now() + ${how.leaseMs} * interval '1 millisecond'
    FROM due WHERE event.event_id = due.event_id
    RETURNING event.event_id, event.type, event.payment_intent_id, event.namespace, event.period,
      event.customer_id, event.attempts,
      (extract(epoch FROM now() - event.received_at) * 1000)::bigint AS age_ms`.execute(db);
  return rows.map((row) => ({
    eventId: row.event_id,
    type: row.type,
    paymentIntentId: row.payment_intent_id,
    slot: slotOf(row),
    attempt: row.attempts,
    ageMs: row.age_ms,
  }));
}

/** Ends an event. False when the claim is not ours any more: somebody else has taken it over. */
export async function finishWebhookEvent(
  db: Db,
  claim: ClaimedEvent,
  result: WebhookResult,
): Promise<boolean> {
  const done = await db
    .updateTable('webhook_events')
    .set({ state: 'processed', result, processed_at: sql`now()`, last_error: null })
    .where('event_id', '=', claim.eventId)
    .where('attempts', '=', claim.attempt)
    .where('state', '<>', 'processed')
    .executeTakeFirst();
  return done.numUpdatedRows === 1n;
}

/** Puts an event back for a later try. Without effect when the claim is not ours any more. */
export async function postponeWebhookEvent(
  db: Db,
  claim: ClaimedEvent,
  to: {
    readonly state: 'received' | 'parked';
    readonly pauseMs: number;
    readonly error: string | null;
  },
): Promise<void> {
  await db
    .updateTable('webhook_events')
    .set({
      state: to.state,
      next_try_at: sql`now() + ${to.pauseMs} * interval '1 millisecond'`,
      last_error: to.error,
    })
    .where('event_id', '=', claim.eventId)
    .where('attempts', '=', claim.attempt)
    .where('state', '<>', 'processed')
    .execute();
}

/** The slot an event is about: by its PaymentIntent, else by our metadata. Null when there is no row yet. */
export async function findEventSlot(db: Db, event: ClaimedEvent): Promise<EventSlot | null> {
  const slots = db
    .selectFrom('billing_charges')
    .select(['namespace', 'period', 'customer_id', 'state', 'payment_intent_id']);
  const { paymentIntentId, slot } = event;
  const byIntent =
    paymentIntentId === null
      ? undefined
      : await slots.where('payment_intent_id', '=', paymentIntentId).executeTakeFirst();
  const row =
    byIntent ??
    (slot === null
      ? undefined
      : await slots
          .where('namespace', '=', slot.namespace)
          .where('period', '=', slot.period)
          .where('customer_id', '=', slot.customerId)
          .executeTakeFirst());
  const ref = row === undefined ? null : slotOf(row);
  if (row === undefined || ref === null) return null;
  return { ref, state: row.state, paymentIntentId: row.payment_intent_id };
}

/**
 * Deletes processed events that are older than the age, at most `limit` of them, and says how many. An
 * event that is not processed is never deleted. Crash-safe: each call is one statement.
 */
export async function purgeWebhookEvents(
  db: Db,
  which: { readonly olderThanDays: number; readonly limit: number },
): Promise<number> {
  const { numAffectedRows } = await sql`
    WITH old AS MATERIALIZED (
      SELECT event_id FROM webhook_events
      WHERE state = 'processed' AND processed_at < now() - ${which.olderThanDays} * interval '1 day'
      ORDER BY processed_at LIMIT ${which.limit}
      FOR UPDATE SKIP LOCKED)
    DELETE FROM webhook_events AS event USING old
    WHERE event.event_id = old.event_id AND event.state = 'processed'`.execute(db);
  return Number(numAffectedRows ?? 0n);
}

/** How many events are in which state, and since when the oldest waits. */
export async function readWebhookCounts(db: Db): Promise<WebhookCounts> {
  return db
    .selectFrom('webhook_events')
    .select((eb) => [
      eb.fn.countAll<number>().filterWhere('state', '=', 'received').as('received'),
      eb.fn.countAll<number>().filterWhere('state', '=', 'parked').as('parked'),
      eb.fn.countAll<number>().filterWhere('state', '=', 'processed').as('processed'),
      eb.fn.min('received_at').filterWhere('state', '<>', 'processed').as('oldestWaiting'),
      eb.fn.min('received_at').filterWhere('state', '=', 'received').as('oldestReceived'),
    ])
    .executeTakeFirstOrThrow();
}

/** Throws when the inbox cannot be reached or is not there: the server is not ready then. */
export async function requireWebhookInbox(db: Db): Promise<void> {
  await db.selectFrom('webhook_events').select('event_id').limit(1).execute();
}

function slotOf(row: {
  readonly namespace: string | null;
  readonly period: string | null;
  readonly customer_id: string | null;
}): SlotRef | null {
  if (row.namespace === null || row.period === null || row.customer_id === null) return null;
  const { namespace, period, customer_id: customerId } = row;
  // Parsed before it was stored, here as in billing_charges.
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion
  return { namespace, period, customerId } as SlotRef;
}
