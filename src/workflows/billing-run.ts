import {
  allHandlersFinished,
  condition,
  continueAsNew,
  executeChild,
  getExternalWorkflowHandle,
  setCurrentDetails,
  sleep,
  workflowInfo,
} from '@temporalio/workflow';
import type { RunPlan, RunTotals } from '../activities/run.ts';
import { settleWorkflowId, type RunRef } from '../domain/ids.ts';
import { runNodes } from './billing-shard.ts';
import { billingSettle } from './billing-settle.ts';
import { describeCounts } from './counts-table.ts';
import { shardModeSignal, type ShardMode } from './messages.ts';
import { listOpen, moveRun, planRun, readTotals, START_AGAIN } from './policies.ts';
import { RunState } from './run-state.ts';
import { serveMessages } from './run-handlers.ts';
import { runSearchAttributes } from './search-attributes.ts';

export interface RunInput extends RunRef {
  /** who asked for the run: a schedule's tick or an operator */
  readonly startedBy: string;
}

/** Most reports a run gets from its shards, whatever its size: its own history stays small. */
const MAX_REPORTS = 200;
const MIN_REPORT_EVERY = 50;

/**
 * The billing run of a period: plan, charge through shards, settle what is unknown, close. Started
 * again after it completed, it charges nobody and only serves reruns; started again after a failure
 * or deletion, it goes through the plan again and the slots decide.
 */
export async function billingRun(input: RunInput): Promise<RunTotals> {
  const run: RunRef = { namespace: input.namespace, period: input.period };
  const state = new RunState(run);
  serveMessages(state, { setShardMode: (mode) => tellShards(state, mode) });
  const plan = await planRun(run, input.startedBy);
  state.planned(plan.customerCount);
  if (plan.state !== 'completed') await chargeAll(state, plan);
  await settle(state, plan);
  await condition(() => state.idle() && allHandlersFinished());
  // A rerun that was served meanwhile may have ended unknown: it is settled like the others.
  while (state.takeUnsettled()) {
    await settle(state, plan);
    await condition(() => state.idle() && allHandlersFinished());
    if (workflowInfo().continueAsNewSuggested) await continueAsNew<typeof billingRun>(input);
  }
  return close(state);
}

async function chargeAll(state: RunState, plan: RunPlan): Promise<void> {
  await moveRun(state.run, 'charging');
  state.enter('charging');
  const reportEvery = Math.max(MIN_REPORT_EVERY, Math.ceil(plan.customerCount / MAX_REPORTS));
  await runNodes(
    { ...state.run, reportEvery },
    { after: 0, upTo: plan.customerCount },
    {
      mayStart: async () => {
        await condition(() => state.mode !== 'paused');
        return state.mode === 'running';
      },
      nodes: state.nodes,
    },
  );
}

/** Rounds with growing pauses, until nothing is open or the pauses are used up; what is left stays unknown. */
async function settle(state: RunState, plan: RunPlan): Promise<void> {
  for (const pauseMs of plan.reconcilePausesMs) {
    if (state.mode === 'stopped') return;
    const open = await listOpen(state.run, { after: '', limit: 1 });
    if (open.length === 0) return;
    if (state.phase !== 'settling') {
      state.enter('settling');
      await moveRun(state.run, 'settling');
    }
    await sleep(pauseMs);
    await condition(() => state.mode !== 'paused');
    state.settleRound += 1;
    await executeChild(billingSettle, {
      workflowId: settleWorkflowId(state.run, String(state.settleRound)),
      workflowIdReusePolicy: START_AGAIN,
      args: [{ ...state.run, after: '' }],
      staticSummary: `settle round ${state.settleRound} of ${state.run.period}`,
      typedSearchAttributes: runSearchAttributes(state.run),
    });
  }
}

async function close(state: RunState): Promise<RunTotals> {
  await moveRun(state.run, state.mode === 'stopped' ? 'stopped' : 'completed');
  const totals = await readTotals(state.run);
  state.enter('completed');
  setCurrentDetails(describeCounts(totals.counts));
  return totals;
}

/** Passes pause, resume or stop on to the shards under way. One that has just closed needs no telling. */
async function tellShards(state: RunState, mode: ShardMode): Promise<void> {
  await Promise.allSettled(
    [...state.nodes].map((id) => getExternalWorkflowHandle(id).signal(shardModeSignal, mode)),
  );
}
