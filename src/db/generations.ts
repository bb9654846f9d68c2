import { sql } from 'kysely';
import type { SlotState } from '../domain/charge.ts';
import type { SlotRef } from '../domain/ids.ts';
import type { Db } from './database.ts';
import type { FrozenRequest } from './slots.ts';

/** What a new generation will send: built by the caller from the item and the customer's present payment method. */
export interface NextGeneration {
  readonly create: FrozenRequest;
  readonly confirm: FrozenRequest;
  readonly apiVersion: string;
}

export type FreezeNext = (slot: {
  readonly generation: number;
  readonly stripeCustomerId: string;
  readonly paymentMethodId: string;
  readonly amountMinor: number;
  readonly currency: string;
  readonly description: string | null;
}) => NextGeneration;

/** A slot under its row lock, with what its next generation would send. */
export interface LockedSlot {
  readonly state: SlotState | null;
  readonly generation: number;
  readonly stripeCustomerId: string;
  readonly paymentMethodId: string | null;
  readonly amountMinor: number;
  readonly currency: string;
  readonly description: string | null;
}

/** Takes the slot's row lock until the transaction ends; null when the customer is not in the run. */
export async function lockSlot(trx: Db, slot: SlotRef): Promise<LockedSlot | null> {
  const { rows } = await sql<{
    state: SlotState | null;
    generation: number | null;
    stripe_customer_id: string;
    payment_method_id: string | null;
    amount_minor: number;
    currency: string;
    description: string | null;
  }>`
    WITH slot AS MATERIALIZED (
      SELECT * FROM billing_charges WHERE namespace = ${slot.namespace} AND period = ${slot.period}
        AND customer_id = ${slot.customerId} FOR UPDATE)
    SELECT slot.state, slot.generation, i.stripe_customer_id, i.amount_minor, i.currency, i.description,
      coalesce(c.payment_method_id, i.payment_method_id) AS payment_method_id
    FROM billing_items i LEFT JOIN slot USING (namespace, period, customer_id)
    LEFT JOIN customers c ON c.customer_id = i.customer_id
    WHERE i.namespace = ${slot.namespace} AND i.period = ${slot.period}
      AND i.customer_id = ${slot.customerId}`.execute(trx);
  const row = rows[0];
  if (row === undefined) return null;
  return {
    state: row.state,
    generation: row.generation ?? 0,
    stripeCustomerId: row.stripe_customer_id,
    paymentMethodId: row.payment_method_id,
    amountMinor: row.amount_minor,
    currency: row.currency,
    description: row.description,
  };
}

/** Whether a key of the slot is undecided; none is once a person has said that nothing happened. */
export async function hasOpenKey(trx: Db, slot: SlotRef): Promise<boolean> {
  const open = await trx
    .selectFrom('charge_generations')
    .select('idempotency_key')
    .where('namespace', '=', slot.namespace)
    .where('period', '=', slot.period)
    .where('customer_id', '=', slot.customerId)
    .where('outcome', 'is', null)
    .limit(1)
    .executeTakeFirst();
  return open !== undefined;
}

/**
 * Makes a locked slot claimable again under the keys of its next generation. The trigger refuses it while a
 * sent key of the generation before has no answer.
 */
export async function openGeneration(
  trx: Db,
  opened: { slot: SlotRef; generation: number; frozen: NextGeneration },
): Promise<void> {
  const { slot, generation, frozen } = opened;
  await trx
    .updateTable('billing_charges')
    .set({
      state: 'claimed',
      generation,
      idempotency_key: frozen.confirm.key,
      reason: null,
      advice: null,
      settled_at: null,
      updated_at: sql`now()`,
    })
    .where('namespace', '=', slot.namespace)
    .where('period', '=', slot.period)
    .where('customer_id', '=', slot.customerId)
    .execute();
  // The create keeps its generation as long as its PaymentIntent is there: one intent per slot.
  const intentMade = await trx
    .selectFrom('charge_generations')
    .select('idempotency_key')
    .where('namespace', '=', slot.namespace)
    .where('period', '=', slot.period)
    .where('customer_id', '=', slot.customerId)
    .where('outcome', '=', 'created')
    .executeTakeFirst();
  const requests = [
    ...(intentMade === undefined ? [{ operation: 'create' as const, ...frozen.create }] : []),
    { operation: 'confirm' as const, ...frozen.confirm },
  ];
  await trx
    .insertInto('charge_generations')
    .values(
      requests.map((request) => ({
        idempotency_key: request.key,
        namespace: slot.namespace,
        period: slot.period,
        customer_id: slot.customerId,
        operation: request.operation,
        generation,
        request_body: request.body,
        api_version: frozen.apiVersion,
      })),
    )
    .execute();
}

/**
 * Keeps the id of an intent whose create reply was lost, so that it is confirmed and no other is made, and
 * closes its create. Twice: the second finds it kept.
 */
export async function adoptIntent(
  db: Db,
  slot: SlotRef,
  found: { readonly generation: number; readonly paymentIntentId: string },
): Promise<void> {
  await sql`
    WITH slot AS (
      UPDATE billing_charges SET payment_intent_id = ${found.paymentIntentId}, updated_at = now()
      WHERE namespace = ${slot.namespace} AND period = ${slot.period} AND customer_id = ${slot.customerId}
        AND generation = ${found.generation} AND payment_intent_id IS NULL
        AND state IN ('claimed', 'sent', 'indeterminate', 'in_review')
      RETURNING namespace, period, customer_id
    )
    UPDATE charge_generations g SET outcome = 'created', finished_at = now()
    FROM slot WHERE g.namespace = slot.namespace AND g.period = slot.period
      AND g.customer_id = slot.customer_id AND g.operation = 'create' AND g.outcome IS NULL`.execute(
    db,
  );
}
