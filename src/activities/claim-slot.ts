import type { ClaimAnswer, ClaimOrder, SkipReason } from '../domain/charge.ts';
import { FAILURES } from '../domain/failures.ts';
import type { SlotRef } from '../domain/ids.ts';
import { isHeld } from '../db/runs.ts';
import {
  claimAnswerOf,
  insertClaim,
  insertSkipped,
  readItemAndSlot,
  type ItemAndSlot,
} from '../db/slots.ts';
import type { ActivityDeps } from './deps.ts';
import { stop } from './errors.ts';
import { freezeGeneration } from './frozen.ts';

/**
 * Takes the customer's slot for the period, or says who has it. Commits before anything is sent. Twice,
 * or by fifty at once: one caller claims, all others read the same row.
 */
export async function claimSlot(deps: ActivityDeps, slot: ClaimOrder): Promise<ClaimAnswer> {
  if (slot.unlessHeld === true && (await isHeld(deps.db, slot))) return { kind: 'held' };
  const item = await readItem(deps, slot);
  if (item.slot !== null) return claimAnswerOf(item.slot);
  await deps.crashPoint('beforeClaimCommits', slot);
  const mine = await take(deps, slot, item);
  await deps.crashPoint('afterClaimCommitted', slot);
  if (mine !== null) return mine;
  // Lost: the winner's row became visible while our insert waited for it, so it takes a new statement.
  const taken = await readItem(deps, slot);
  if (taken.slot !== null) return claimAnswerOf(taken.slot);
  throw stop(FAILURES.invariantBroken, `slot ${slot.customerId} is taken and cannot be read`);
}

async function take(
  deps: ActivityDeps,
  slot: SlotRef,
  item: ItemAndSlot,
): Promise<ClaimAnswer | null> {
  const { paymentMethodId } = item;
  if (item.amountMinor === 0 || paymentMethodId === null) {
    const reason: SkipReason = item.amountMinor === 0 ? 'nothing_due' : 'no_payment_method';
    return (await insertSkipped(deps.db, slot, reason)) ? { kind: 'skipped', reason } : null;
  }
  const frozen = freezeGeneration(deps, slot, { ...item, paymentMethodId, generation: 1 });
  const won = await insertClaim(deps.db, slot, frozen);
  return won ? { kind: 'claimed', generation: 1 } : null;
}

async function readItem(deps: ActivityDeps, slot: SlotRef): Promise<ItemAndSlot> {
  const item = await readItemAndSlot(deps.db, slot);
  if (item !== null) return item;
  throw stop(FAILURES.runNotPlanned, `${slot.customerId} is not in the plan of ${slot.period}`);
}
