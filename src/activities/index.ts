import { activityInfo, heartbeat } from '@temporalio/activity';
import type {
  ChargeResult,
  ClaimAnswer,
  ClaimOrder,
  ReconcileAnswer,
  RerunAnswer,
  RerunOrder,
} from '../domain/charge.ts';
import type { CustomerId } from '../domain/customer-id.ts';
import type { RunRef, SlotRef } from '../domain/ids.ts';
import type { ListedItem, RunState } from '../db/runs.ts';
import { insertSweep, listSweepSlots } from '../db/sweep.ts';
import type { SweepPage, SweepReport, SweepSlot } from '../domain/sweep.ts';
import { charge, type ChargeOrder } from './charge.ts';
import { claimSlot } from './claim-slot.ts';
import { depsOf, type ActivityDeps } from './deps.ts';
import { withFailures } from './errors.ts';
import { purge, type PurgeReport } from './purge.ts';
import { look, reconcile } from './reconcile.ts';
import { record, type RecordedOutcome } from './record.ts';
import {
  decideRerun,
  listOpen,
  listShard,
  logOrder,
  readPlan,
  readTotals,
  type LoggedOrder,
  type RunPlan,
  type RunTotals,
} from './run.ts';
import { moveAndClose, planOpened } from './vault-run.ts';

/** Well under the heartbeat time-out, so that one late beat does not count as a lost worker. */
const HEARTBEAT_EVERY_MS = 2_500;

/** Activities of the queue `billing`: Postgres only. Claim and record are local, and the answer to a rerun takes milliseconds: no heartbeats. */
export function createBillingActivities(deps: ActivityDeps) {
  return {
    claimSlot: (slot: ClaimOrder): Promise<ClaimAnswer> =>
      withFailures(() => claimSlot(deps, slot)),
    record: (slot: SlotRef, charged: ChargeResult): Promise<RecordedOutcome> =>
      withFailures(() => record(deps, slot, charged)),
    planRun: (run: RunRef, plannedBy: string): Promise<RunPlan> =>
      beating(() => planOpened(deps, run, plannedBy)),
    readPlan: (run: RunRef): Promise<RunPlan | null> => beating(() => readPlan(deps, run)),
    moveRun: (run: RunRef, state: RunState): Promise<void> =>
      beating(() => moveAndClose(deps, run, state)),
    listShard: (
      run: RunRef,
      range: { after: number; upTo: number },
    ): Promise<readonly ListedItem[]> => beating(() => listShard(deps, run, range)),
    listOpen: (
      run: RunRef,
      page: { after: string; limit: number },
    ): Promise<readonly CustomerId[]> => beating(() => listOpen(deps, run, page)),
    readTotals: (run: RunRef): Promise<RunTotals> => beating(() => readTotals(deps, run)),
    decideRerun: (order: RerunOrder): Promise<RerunAnswer> =>
      withFailures(() => decideRerun(deps, order)),
    listSweep: (page: SweepPage): Promise<readonly SweepSlot[]> =>
      beating(async () => {
        await deps.requireEnvironment();
        return listSweepSlots(deps.db, page);
      }),
    noteSweep: (report: SweepReport): Promise<void> => beating(() => insertSweep(deps.db, report)),
    purge: (): Promise<PurgeReport> => beating(() => purge(deps)),
    logOrder: (
      run: RunRef,
      order: { action: string; operator: string; reason: string },
    ): Promise<LoggedOrder> => beating(() => logOrder(deps, run, order)),
  };
}

/** Activities of the queue `charge`: the only ones that call Stripe, so the queue's limit is Stripe's. */
export function createChargeActivities(deps: ActivityDeps) {
  return {
    look: (slot: SlotRef): Promise<ReconcileAnswer> =>
      beating(() => look(depsOf(deps, slot), slot)),
    charge: (order: ChargeOrder): Promise<ChargeResult> =>
      beating(() => charge(depsOf(deps, order), order, activityInfo().attempt)),
    reconcile: (order: ChargeOrder): Promise<ReconcileAnswer> =>
      beating(() => reconcile(depsOf(deps, order), order)),
  };
}

export type BillingActivities = ReturnType<typeof createBillingActivities>;
export type ChargeActivities = ReturnType<typeof createChargeActivities>;

/** Heartbeats while Stripe or a long statement is awaited, so that a killed or frozen worker is noticed in seconds. */
async function beating<T>(work: () => Promise<T>): Promise<T> {
  const beat = setInterval(() => heartbeat(), HEARTBEAT_EVERY_MS);
  try {
    return await withFailures(work);
  } finally {
    clearInterval(beat);
  }
}
