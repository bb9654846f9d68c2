import { sql } from 'kysely';
import { assertNever } from '../domain/assert-never.ts';
import type { RerunAnswer, RerunOrder, SlotState } from '../domain/charge.ts';
import type { SlotRef } from '../domain/ids.ts';
import { writeAuditEntry } from './audit-log.ts';
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

/** The request id belongs to another order, whose answer would be wrong for this one. */
export class RequestIdReused extends Error {
  override readonly name = 'RequestIdReused';
}

/**
 * Answers an operator's rerun and, when accepted, opens the next generation, all in one transaction
 * under the slot's row lock. The same request id again gets the same answer and changes nothing.
 */
export async function acceptRerun(
  db: Db,
  order: RerunOrder,
  freezeNext: FreezeNext,
): Promise<RerunAnswer> {
  return db.transaction().execute(async (trx) => {
    const seen = await readAnswer(trx, order);
    if (seen !== null) return seen;
    const slot = await lockSlot(trx, order);
    const answer = await decide(trx, { order, slot, freezeNext });
    const stored = await trx
      .insertInto('rerun_requests')
      .values({
        request_id: order.requestId,
        namespace: order.namespace,
        period: order.period,
        customer_id: order.customerId,
        operator: order.operator,
        reason: order.reason,
        answer,
      })
      .onConflict((conflict) => conflict.column('request_id').doNothing())
      .returning('answer')
      .executeTakeFirst();
    // The same order at the same moment for a customer without a slot: nothing to lock on.
    if (stored === undefined) return (await readAnswer(trx, order)) ?? answer;
    await writeAuditEntry(trx, {
      actor: order.operator,
      action: `rerun.${answer}`,
      namespace: order.namespace,
      period: order.period,
      customerId: order.customerId,
      reason: order.reason,
      details: { requestId: order.requestId },
    });
    return answer;
  });
}

async function readAnswer(trx: Db, order: RerunOrder): Promise<RerunAnswer | null> {
  const row = await trx
    .selectFrom('rerun_requests')
    .select(['answer', 'namespace', 'period', 'customer_id'])
    .where('request_id', '=', order.requestId)
    .executeTakeFirst();
  if (row === undefined) return null;
  const same =
    row.namespace === order.namespace &&
    row.period === order.period &&
    row.customer_id === order.customerId;
  if (!same) {
    throw new RequestIdReused(
      `request id ${order.requestId} was used for ${row.customer_id} in ${row.period}: give every order its own id`,
    );
  }
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- only acceptRerun writes this column
  return row.answer as RerunAnswer;
}

interface LockedSlot {
  readonly state: SlotState | null;
  readonly generation: number;
  readonly stripeCustomerId: string;
  readonly paymentMethodId: string | null;
  readonly amountMinor: number;
  readonly currency: string;
  readonly description: string | null;
}

async function lockSlot(trx: Db, slot: SlotRef): Promise<LockedSlot | null> {
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

async function decide(
  trx: Db,
  on: { order: RerunOrder; slot: LockedSlot | null; freezeNext: FreezeNext },
): Promise<RerunAnswer> {
  const { order, slot, freezeNext } = on;
  if (slot === null) return 'unknownCustomer';
  const { state } = slot;
  switch (state) {
    // Not claimed yet, or claimed and not answered: the same key goes on. A resume, not a generation.
    case null:
    case 'claimed':
      return 'accepted';
    // The cap refused it: taken up again under the same key, which may have been sent before.
    case 'blocked':
      await unblock(trx, order);
      return 'accepted';
    case 'charged':
      return 'alreadyCharged';
    case 'sent':
    case 'indeterminate':
    case 'in_review':
      return 'inDoubt';
    case 'declined':
    case 'misconfigured':
    case 'skipped': {
      if (slot.amountMinor === 0 || slot.paymentMethodId === null) return 'nothingDue';
      const generation = state === 'skipped' ? slot.generation : slot.generation + 1;
      const frozen = freezeNext({ ...slot, paymentMethodId: slot.paymentMethodId, generation });
      await openGeneration(trx, { slot: order, generation, frozen });
      return 'accepted';
    }
    default:
      return assertNever(state);
  }
}

async function unblock(trx: Db, slot: SlotRef): Promise<void> {
  await trx
    .updateTable('billing_charges')
    .set({ state: 'sent', reason: null, advice: null, settled_at: null, updated_at: sql`now()` })
    .where('namespace', '=', slot.namespace)
    .where('period', '=', slot.period)
    .where('customer_id', '=', slot.customerId)
    .where('state', '=', 'blocked')
    .execute();
}

async function openGeneration(
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
