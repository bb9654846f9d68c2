import {
  ActivityFailure,
  ApplicationFailure,
  CancellationScope,
  setCurrentDetails,
  TimeoutFailure,
  upsertSearchAttributes,
} from '@temporalio/workflow';
import { assertNever } from '../domain/assert-never.ts';
import {
  stopsRun,
  type ChargeResult,
  type ClaimAnswer,
  type ClaimOrder,
  type CustomerResult,
} from '../domain/charge.ts';
import type { SlotRef } from '../domain/ids.ts';
import { charge, claimSlot, look, reconcile, record } from './policies.ts';
import { BILLING_OUTCOME } from './search-attributes.ts';

export interface CustomerOptions {
  /** asks Stripe and records what it shows; claims nothing and sends nothing */
  readonly readOnly?: boolean;
  /** only looks where the run is paused or stopped by now: for the sweep, whose list is some minutes old */
  readonly unlessHeld?: boolean;
}

/**
 * Charges one customer once: claim the slot, charge, record. Every outcome is a return value; only a
 * broken invariant fails the workflow. Twice, or while another one runs: the slot's row decides.
 */
export async function customerCharge(
  slot: SlotRef,
  options: CustomerOptions = {},
): Promise<CustomerResult> {
  const order = options.unlessHeld === true ? { ...slot, unlessHeld: true } : slot;
  const result =
    options.readOnly === true ? await lookAndRecord(slot) : await claimAndFollow(order);
  const why = result.reason === null ? '' : `: ${result.reason}`;
  setCurrentDetails(`**${result.outcome}**${why}`);
  upsertSearchAttributes([{ key: BILLING_OUTCOME, value: result.outcome }]);
  return result;
}

async function claimAndFollow(slot: ClaimOrder): Promise<CustomerResult> {
  const answer = await claimSlot(slot);
  return CancellationScope.nonCancellable(() => follow(slot, answer));
}

/** What Stripe shows now goes into the slot; whatever would need a send is left to those who may. */
async function lookAndRecord(slot: SlotRef): Promise<CustomerResult> {
  try {
    const found = await look(slot);
    if (found.kind === 'settled') return await recordResult(slot, found.charge);
    return ended('indeterminate', found.kind === 'unknown' ? found.reason : 'not_sent_again');
  } catch (error) {
    if (error instanceof ActivityFailure && error.activityType === 'look') {
      return ended('indeterminate', reasonOf(error));
    }
    throw error;
  }
}

async function follow(slot: SlotRef, answer: ClaimAnswer): Promise<CustomerResult> {
  switch (answer.kind) {
    case 'claimed':
    case 'resumed':
      return chargeAndRecord(slot, answer.generation);
    case 'inDoubt':
      return reconcileAndRecord(slot, answer.generation);
    case 'alreadyCharged':
      return ended('charged', null);
    case 'declinedBefore':
      return ended(answer.outcome, answer.reason);
    case 'held':
      return lookAndRecord(slot);
    case 'skipped':
      return ended('skipped', answer.reason);
    default:
      return assertNever(answer);
  }
}

async function chargeAndRecord(slot: SlotRef, generation: number): Promise<CustomerResult> {
  let charged: ChargeResult;
  try {
    charged = await charge({ ...slot, generation });
  } catch (error) {
    charged = unknownOutcome(generation, error);
  }
  return recordResult(slot, charged);
}

/** Only reconcile may go on with a slot in doubt; it charges again only where Stripe shows that nothing happened. */
async function reconcileAndRecord(slot: SlotRef, generation: number): Promise<CustomerResult> {
  try {
    const found = await reconcile({ ...slot, generation });
    switch (found.kind) {
      case 'settled':
        return await recordResult(slot, found.charge);
      case 'resumable':
        return await chargeAndRecord(slot, found.generation);
      case 'unknown':
        return ended('indeterminate', found.reason);
    }
  } catch (error) {
    if (error instanceof ActivityFailure && error.activityType === 'reconcile') {
      return ended('indeterminate', reasonOf(error));
    }
    throw error;
  }
}

async function recordResult(slot: SlotRef, charged: ChargeResult): Promise<CustomerResult> {
  const { outcome } = await record(slot, charged);
  const { result } = charged;
  const reason = result.outcome === 'charged' || outcome !== result.outcome ? null : result.reason;
  return { outcome, reason, stopsRun: stopsRun(result) };
}

function ended(outcome: CustomerResult['outcome'], reason: string | null): CustomerResult {
  return { outcome, reason, stopsRun: false };
}

/** Whatever ended the retries, a send may have taken effect: the outcome is unknown, never "failed". */
function unknownOutcome(generation: number, error: unknown): ChargeResult {
  if (!(error instanceof ActivityFailure)) throw error;
  return {
    generation,
    result: { outcome: 'indeterminate', reason: reasonOf(error), advice: 'reconcile' },
    answer: null,
  };
}

function reasonOf(failure: ActivityFailure): string {
  const { cause } = failure;
  if (cause instanceof TimeoutFailure)
    return `activity_timeout_${(cause.timeoutType ?? 'unknown').toLowerCase()}`;
  if (cause instanceof ApplicationFailure) {
    return `${cause.type ?? 'error'}: ${cause.message}`.slice(0, 200);
  }
  return 'activity_cancelled';
}
