import { assertNever } from '../domain/assert-never.ts';
import type { RerunAnswer, RerunOrder } from '../domain/charge.ts';
import { writeAuditEntry } from './audit-log.ts';
import { unblockSlots } from './blocked.ts';
import type { Db } from './database.ts';
import {
  hasOpenKey,
  lockSlot,
  openGeneration,
  type FreezeNext,
  type LockedSlot,
} from './generations.ts';

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
      await unblockSlots(trx, order);
      return 'accepted';
    case 'charged':
      return 'alreadyCharged';
    case 'sent':
      return 'inDoubt';
    case 'indeterminate':
    case 'in_review':
      if (await hasOpenKey(trx, order)) return 'inDoubt';
      // A person has said that nothing happened: the proof that a next generation needs.
      return openNext(trx, { order, slot, freezeNext });
    case 'declined':
    case 'misconfigured':
    case 'skipped':
      return openNext(trx, { order, slot, freezeNext });
    default:
      return assertNever(state);
  }
}

async function openNext(
  trx: Db,
  on: { order: RerunOrder; slot: LockedSlot; freezeNext: FreezeNext },
): Promise<RerunAnswer> {
  const { order, slot, freezeNext } = on;
  if (slot.amountMinor === 0 || slot.paymentMethodId === null) return 'nothingDue';
  const generation = slot.state === 'skipped' ? slot.generation : slot.generation + 1;
  const frozen = freezeNext({ ...slot, paymentMethodId: slot.paymentMethodId, generation });
  await openGeneration(trx, { slot: order, generation, frozen });
  return 'accepted';
}
