import type { OutcomeCounts, RerunAnswer, RerunOrder } from '../domain/charge.ts';
import type { CustomerId } from '../domain/customer-id.ts';
import { FAILURES } from '../domain/failures.ts';
import type { RunRef } from '../domain/ids.ts';
import { writeAuditEntry } from '../db/audit-log.ts';
import { unblockSlots } from '../db/blocked.ts';
import { listOpenSlots } from '../db/open-slots.ts';
import { acceptRerun } from '../db/reruns.ts';
import { readRunSummary } from '../db/run-summary.ts';
import {
  listItems,
  moveRun,
  planRun,
  readRun,
  setControl,
  type ListedItem,
  type RunControl,
  type RunState,
} from '../db/runs.ts';
import type { ActivityDeps } from './deps.ts';
import { stop } from './errors.ts';
import { freezeGeneration } from './frozen.ts';

export interface RunPlan {
  readonly state: RunState;
  readonly customerCount: number;
  /** from the worker's configuration, so that it stands in the run's history */
  readonly reconcilePausesMs: readonly number[];
}

/** Freezes the run's items, or reads the plan that stands. Twice: one plan. */
export async function plan(deps: ActivityDeps, run: RunRef, plannedBy: string): Promise<RunPlan> {
  await deps.requireEnvironment();
  const planned = await planRun(deps.db, run, plannedBy);
  return { ...planned, reconcilePausesMs: deps.reconcilePausesMs };
}

/** The plan that stands, or null; plans nothing. */
export async function readPlan(deps: ActivityDeps, run: RunRef): Promise<RunPlan | null> {
  await deps.requireEnvironment();
  const planned = await readRun(deps.db, run);
  return planned === null ? null : { ...planned, reconcilePausesMs: deps.reconcilePausesMs };
}

/** Moves the run's row along; a completed run stays completed. Twice: the second changes nothing. */
export async function move(deps: ActivityDeps, run: RunRef, state: RunState): Promise<void> {
  await moveRun(deps.db, run, { state, actor: 'run' });
}

/** A shard's customers by their places in the plan. */
export async function listShard(
  deps: ActivityDeps,
  run: RunRef,
  range: { readonly after: number; readonly upTo: number },
): Promise<readonly ListedItem[]> {
  await deps.requireEnvironment();
  return listItems(deps.db, run, range);
}

/** Customers whose outcome is still open, a page after a customer id; empty when there is none. */
export async function listOpen(
  deps: ActivityDeps,
  run: RunRef,
  page: { readonly after: string; readonly limit: number },
): Promise<readonly CustomerId[]> {
  await deps.requireEnvironment();
  return listOpenSlots(deps.db, run, page);
}

export interface RunTotals {
  readonly customers: number;
  readonly counts: OutcomeCounts;
  /** claimed or sent and not settled, or not claimed at all */
  readonly open: number;
  readonly chargedMinorByCurrency: Readonly<Record<string, number>>;
}

/** The run's counts from the database, which is what the run returns. Reads only. */
export async function readTotals(deps: ActivityDeps, run: RunRef): Promise<RunTotals> {
  const summary = await readRunSummary(deps.db, run);
  if (summary === null) throw stop(FAILURES.runNotPlanned, `${run.period} has no plan`);
  const { customers, counts, inProgress, unclaimed, chargedMinorByCurrency } = summary;
  return { customers, counts, open: inProgress + unclaimed, chargedMinorByCurrency };
}

/** Answers an operator's rerun and opens the next generation when accepted. Twice: one answer, one generation. */
export async function decideRerun(deps: ActivityDeps, order: RerunOrder): Promise<RerunAnswer> {
  await deps.requireEnvironment();
  return acceptRerun(deps.db, order, (item) => freezeGeneration(deps, order, item));
}

const CONTROL: Readonly<Record<string, RunControl>> = {
  'run.paused': 'paused',
  'run.resumed': 'running',
  'run.stop_ordered': 'stopped',
};

export interface LoggedOrder {
  /** customers whom the spend cap had refused and who are to be attended to again */
  readonly unblocked: number;
}

/**
 * Puts an operator's order (pause, resume, stop) into the audit log and into the run's row. A resume also takes up
 * whom the spend cap refused. Twice: two entries.
 */
export async function logOrder(
  deps: ActivityDeps,
  run: RunRef,
  order: { readonly action: string; readonly operator: string; readonly reason: string },
): Promise<LoggedOrder> {
  const { action, operator, reason } = order;
  const control = CONTROL[action] ?? null;
  return deps.db.transaction().execute(async (trx) => {
    const unblocked = control === 'running' ? await unblockSlots(trx, run) : 0;
    if (control !== null) {
      const note = control === 'running' ? null : `${control} by ${operator}: ${reason}`;
      await setControl(trx, run, { control, note });
    }
    await writeAuditEntry(trx, {
      actor: operator,
      action,
      namespace: run.namespace,
      period: run.period,
      reason,
      ...(unblocked === 0 ? {} : { details: { unblocked } }),
    });
    return { unblocked };
  });
}
