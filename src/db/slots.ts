import { sql } from 'kysely';
import { assertNever } from '../domain/assert-never.ts';
import type { ClaimAnswer, SkipReason, SlotState } from '../domain/charge.ts';
import type { IdempotencyKey } from '../domain/idempotency-key.ts';
import type { SlotRef } from '../domain/ids.ts';
import type { Db } from './database.ts';

/** A frozen item beside its slot, if somebody has taken it. */
export interface ItemAndSlot {
  readonly stripeCustomerId: string;
  readonly paymentMethodId: string | null;
  readonly amountMinor: number;
  readonly currency: string;
  readonly description: string | null;
  readonly slot: {
    readonly state: SlotState;
    readonly generation: number;
    readonly reason: string | null;
  } | null;
}

/** One request as it will be sent for ever under its key. */
export interface FrozenRequest {
  readonly key: IdempotencyKey;
  readonly body: string;
}

/** The frozen item and its slot in one read; null when the customer is not in the run. */
export async function readItemAndSlot(db: Db, slot: SlotRef): Promise<ItemAndSlot | null> {
  const row = await db
    .selectFrom('billing_items as item')
    .leftJoin('billing_charges as slot', (join) =>
      join
        .onRef('slot.namespace', '=', 'item.namespace')
        .onRef('slot.period', '=', 'item.period')
        .onRef('slot.customer_id', '=', 'item.customer_id'),
    )
    .select([
      'item.stripe_customer_id',
      'item.payment_method_id',
      'item.amount_minor',
      'item.currency',
      'item.description',
      'slot.state',
      'slot.generation',
      'slot.reason',
    ])
    .where('item.namespace', '=', slot.namespace)
    .where('item.period', '=', slot.period)
    .where('item.customer_id', '=', slot.customerId)
    .executeTakeFirst();
  if (row === undefined) return null;
  return {
    stripeCustomerId: row.stripe_customer_id,
    paymentMethodId: row.payment_method_id,
    amountMinor: row.amount_minor,
    currency: row.currency,
    description: row.description,
    slot:
      row.state === null || row.generation === null
        ? null
        : { state: row.state, generation: row.generation, reason: row.reason },
  };
}

/**
 * Takes a slot by unique insert, together with both frozen requests of its first generation, in one
 * statement. True for the one caller whose insert won. The loser gets false even while it cannot see
 * the winner's row: under ON CONFLICT DO NOTHING it must read in a statement of its own.
 */
export async function insertClaim(
  db: Db,
  slot: SlotRef,
  frozen: { create: FrozenRequest; confirm: FrozenRequest; apiVersion: string },
): Promise<boolean> {
  const { rows } = await sql<{ won: boolean }>`
    WITH claimed AS (
      INSERT INTO billing_charges (namespace, period, customer_id, state, generation, idempotency_key)
      VALUES (${slot.namespace}, ${slot.period}, ${slot.customerId}, 'claimed', 1, ${frozen.confirm.key})
      -- no columns named: of two inserts at the same instant one may meet the other by its key first,
      -- and a unique index that is not named raises an error then instead of doing nothing
      ON CONFLICT DO NOTHING
      RETURNING namespace, period, customer_id
    ), frozen AS (
      INSERT INTO charge_generations
        (idempotency_key, namespace, period, customer_id, operation, generation, request_body, api_version)
      SELECT request.key, claimed.namespace, claimed.period, claimed.customer_id,
             request.operation::charge_operation, 1, request.body, ${frozen.apiVersion}
      FROM claimed, (VALUES
        (${frozen.create.key}, 'create', ${frozen.create.body}),
        (${frozen.confirm.key}, 'confirm', ${frozen.confirm.body})
      ) AS request (key, operation, body)
    )
    SELECT EXISTS (SELECT FROM claimed) AS won`.execute(db);
  return rows[0]?.won === true;
}

/** Takes a slot that has nothing to be charged. True for the one caller whose insert won. */
export async function insertSkipped(db: Db, slot: SlotRef, reason: SkipReason): Promise<boolean> {
  const inserted = await db
    .insertInto('billing_charges')
    .values({
      namespace: slot.namespace,
      period: slot.period,
      customer_id: slot.customerId,
      state: 'skipped',
      reason,
      settled_at: sql`now()`,
    })
    .onConflict((conflict) => conflict.columns(['namespace', 'period', 'customer_id']).doNothing())
    .returning('state')
    .executeTakeFirst();
  return inserted !== undefined;
}

/** What an existing slot means for whoever wants to charge it. The fast read and the lost insert both end here. */
export function claimAnswerOf(slot: {
  readonly state: SlotState;
  readonly generation: number;
  readonly reason: string | null;
}): ClaimAnswer {
  const reason = slot.reason ?? 'unknown';
  switch (slot.state) {
    case 'claimed':
    case 'sent':
      return { kind: 'resumed', generation: slot.generation };
    case 'charged':
      return { kind: 'alreadyCharged' };
    case 'declined':
    case 'misconfigured':
    case 'blocked':
      return { kind: 'declinedBefore', outcome: slot.state, reason };
    case 'indeterminate':
    case 'in_review':
      return { kind: 'inDoubt', generation: slot.generation, reason };
    case 'skipped':
      return { kind: 'skipped', reason: reason === 'nothing_due' ? reason : 'no_payment_method' };
    default:
      return assertNever(slot.state);
  }
}
