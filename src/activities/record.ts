import { stopsRun, type ChargeResult, type Outcome } from '../domain/charge.ts';
import { FAILURES } from '../domain/failures.ts';
import type { SlotRef } from '../domain/ids.ts';
import { writeAuditEntry } from '../db/audit-log.ts';
import { recordOutcome } from '../db/record.ts';
import { holdRun } from '../db/runs.ts';
import type { ActivityDeps } from './deps.ts';
import { stop } from './errors.ts';

export interface RecordedOutcome {
  /** what the slot says now: an answer that came first stays */
  readonly outcome: Outcome;
}

/**
 * Writes what Stripe did into the slot, fenced by generation and state. A failing record is retried by
 * itself and never leads back to charge. Twice: the second reads what the first wrote.
 */
export async function record(
  deps: ActivityDeps,
  slot: SlotRef,
  charged: ChargeResult,
): Promise<RecordedOutcome> {
  await deps.crashPoint('beforeRecordCommits', slot);
  const written = await recordOutcome(deps.db, slot, { ...charged, actor: 'run' });
  await deps.crashPoint('afterRecordCommitted', slot);
  if (stopsRun(charged.result)) await holdRun(deps.db, slot, charged.result.reason);
  if (written.kind === 'recorded') return { outcome: charged.result.outcome };
  const { state, chargeId } = written;
  const contradicts =
    charged.result.outcome === 'charged' &&
    (state !== 'charged' || chargeId !== charged.result.chargeId);
  if (contradicts) {
    await writeAuditEntry(deps.db, {
      actor: 'run',
      action: 'slot.contradiction',
      namespace: slot.namespace,
      period: slot.period,
      customerId: slot.customerId,
      reason: `Stripe shows a success while the slot is ${state}`,
      details: {
        seen: charged.result.outcome === 'charged' ? charged.result.chargeId : null,
        stored: chargeId,
      },
    });
    throw stop(
      FAILURES.invariantBroken,
      `${slot.customerId}: Stripe shows a success while the slot is ${state}; see the audit log`,
    );
  }
  return { outcome: outcomeOf(state) };
}

function outcomeOf(state: string): Outcome {
  switch (state) {
    case 'charged':
    case 'declined':
    case 'blocked':
    case 'misconfigured':
    case 'skipped':
      return state;
    default:
      return 'indeterminate';
  }
}
