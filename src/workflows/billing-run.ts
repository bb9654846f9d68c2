import {
  allHandlersFinished,
  ApplicationFailure,
  condition,
  continueAsNew,
  patched,
  setCurrentDetails,
  startChild,
  workflowInfo,
} from '@temporalio/workflow';
import type { RunPlan, RunTotals } from '../activities/run.ts';
import { FAILURES } from '../domain/failures.ts';
import { settleWorkflowId, type RunRef } from '../domain/ids.ts';
import { runNodes } from './billing-shard.ts';
import { billingSettle } from './billing-settle.ts';
import { describeCounts } from './counts-table.ts';
import { listOpen, moveRun, planRun, readPlan, readTotals, START_AGAIN } from './policies.ts';
import { RunState } from './run-state.ts';
import { serveMessages } from './run-handlers.ts';
import { runSearchAttributes } from './search-attributes.ts';
import { runNode, tellNodes } from './start-child.ts';

export interface RunInput extends RunRef {
  /** who asked for the run: a schedule's tick or an operator */
  readonly startedBy: string;
  /** a late rerun started this: it never begins a run that was not planned, or goes on with one that was cut off */
  readonly onlyReruns?: boolean;
}

/** Most reports a run gets from its shards, whatever its size: its own history stays small. */
const MAX_REPORTS = 200;
const MIN_REPORT_EVERY = 50;

/**
 * The billing run of a period: plan, charge through shards, settle what is unknown, close. Started
 * again after it completed, it serves reruns and attends to customers whose outcome is still open, with
 * their old keys; started again after a failure, a stop or a deletion, it goes through the plan again
 * and the slots decide. Started by a late rerun, it never begins, resumes or un-stops a run.
 */
export async function billingRun(input: RunInput): Promise<RunTotals> {
  const run: RunRef = { namespace: input.namespace, period: input.period };
  const state = new RunState(run);
  serveMessages(state, { setShardMode: (mode) => tellNodes(state.nodes, mode) });
  const plan = await (input.onlyReruns === true ? readPlan(run) : planRun(run, input.startedBy));
  if (plan !== null) state.planned(plan.customerCount);
  if (plan === null || (input.onlyReruns === true && plan.state !== 'completed')) {
    return serveOnly(state, plan);
  }
  if (plan.state !== 'completed') await chargeAll(state, plan);
  await settle(state, plan);
  for (;;) {
    await condition(() => quiet(state));
    if (state.mode === 'paused' && patched(PAUSED_STAYS_OPEN)) {
      // Over, it could not be resumed, and whom the cap has refused would be left.
      await condition(() => state.mode !== 'paused');
      await settle(state, plan);
      continue;
    }
    if (state.takeUnsettled()) {
      // A rerun that was served meanwhile ended unknown: it is settled like the others.
      await settle(state, plan);
      continue;
    }
    const totals = await close(state);
    // An order that came while the row was written is served first: a workflow that ends now drops it.
    if (quiet(state) && !state.unsettled()) return totals;
    await condition(() => quiet(state));
    if (workflowInfo().continueAsNewSuggested) await continueAsNew<typeof billingRun>(input);
  }
}

/** Marks runs that do not close while they are paused. */
const PAUSED_STAYS_OPEN = 'paused-stays-open';

function quiet(state: RunState): boolean {
  return state.idle() && allHandlersFinished();
}

/**
 * Serves late orders of a run that was never planned, was stopped or was cut off. An order for one
 * customer must not charge the others, so nothing else is touched. Ends as failed unless the run was
 * stopped on purpose: so the period can still be started under its ID.
 */
async function serveOnly(state: RunState, plan: RunPlan | null): Promise<RunTotals> {
  await condition(() => quiet(state));
  if (plan?.state === 'stopped') {
    const totals = await readTotals(state.run);
    await condition(() => quiet(state));
    return totals;
  }
  const { period } = state.run;
  throw ApplicationFailure.nonRetryable(
    plan === null
      ? `${period} has not been billed yet, so there is nothing to run again: start the run first`
      : `the run of ${period} was cut off while ${plan.state}: start it again, it goes on where it was`,
    plan === null ? FAILURES.runNotPlanned : FAILURES.runInterrupted,
  );
}

async function chargeAll(state: RunState, plan: RunPlan): Promise<void> {
  await moveRun(state.run, 'charging');
  state.enter('charging');
  const reportEvery = Math.max(MIN_REPORT_EVERY, Math.ceil(plan.customerCount / MAX_REPORTS));
  await runNodes(
    { ...state.run, reportEvery },
    { after: 0, upTo: plan.customerCount },
    { nodes: state.nodes, mode: () => state.mode },
  );
}

/** Rounds with growing pauses, until nothing is open or the pauses are used up; what is left stays unknown. */
async function settle(state: RunState, plan: RunPlan): Promise<void> {
  for (const pauseMs of plan.reconcilePausesMs) {
    if (state.stopped()) return;
    const open = await listOpen(state.run, { after: '', limit: 1 });
    if (open.length === 0) return;
    if (state.phase !== 'settling') {
      state.enter('settling');
      await moveRun(state.run, 'settling');
    }
    // A pause lasts hours in the end: an order to stop does not wait for it.
    await condition(() => state.stopped() || state.roundIsDue(), pauseMs);
    await condition(() => state.mode !== 'paused');
    state.roundBegins();
    if (state.stopped()) return;
    await settleRound(state);
  }
}

async function settleRound(state: RunState): Promise<void> {
  state.settleRound += 1;
  const workflowId = settleWorkflowId(state.run, String(state.settleRound));
  const start = () =>
    startChild(billingSettle, {
      workflowId,
      workflowIdReusePolicy: START_AGAIN,
      args: [{ ...state.run, after: '', mode: state.mode }],
      staticSummary: `settle round ${state.settleRound} of ${state.run.period}`,
      typedSearchAttributes: runSearchAttributes(state.run),
    });
  await runNode(workflowId, start, { nodes: state.nodes, mode: () => state.mode });
}

async function close(state: RunState): Promise<RunTotals> {
  await moveRun(state.run, state.mode === 'stopped' ? 'stopped' : 'completed');
  const totals = await readTotals(state.run);
  state.enter('completed');
  setCurrentDetails(describeCounts(totals.counts));
  return totals;
}
