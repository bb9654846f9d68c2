import {
  allHandlersFinished,
  condition,
  continueAsNew,
  getExternalWorkflowHandle,
  ParentClosePolicy,
  setCurrentDetails,
  startChild,
  workflowInfo,
} from '@temporalio/workflow';
import { NO_OUTCOMES, type CustomerResult } from '../domain/charge.ts';
import { groupWorkflowId, runWorkflowId, shardWorkflowId, type RunRef } from '../domain/ids.ts';
import { describeAmount } from '../domain/money-text.ts';
import { countOutcome } from '../domain/outcome-counts.ts';
import { isLeaf, shardNumber, splitRange, type PlanRange } from '../domain/shard-range.ts';
import { describeCounts } from './counts-table.ts';
import { shardReportSignal, type ShardMode } from './messages.ts';
import { NodeMode } from './node-mode.ts';
import { BATCH_PRIORITY, listShard, START_AGAIN, START_ONCE } from './policies.ts';
import { runSearchAttributes } from './search-attributes.ts';
import { runCustomer, runNode, tellNodes, type NodeControl } from './start-child.ts';
import { runInWindow } from './window.ts';

/** Customers under way in one shard: rate × latency of a charge, with room (24/s × 2 s). */
const CUSTOMER_WINDOW = 50;
/** Shards under way in one node: enough to bridge one's end and the next one's start. */
const SHARD_WINDOW = 2;

export interface ShardInput extends RunRef {
  readonly range: PlanRange;
  /** customers between two reports to the run: the run's history must stay small */
  readonly reportEvery: number;
  /** what the run had ordered when this one began; running when absent */
  readonly mode?: ShardMode;
}

/**
 * Charges the customers at a range of places in the plan: a leaf of at most 500, or a group that hands
 * its range on to leaves. One customer's failure never fails the shard. Started again after a failure
 * it goes through its range again; the slots decide.
 */
export async function billingShard(input: ShardInput): Promise<void> {
  const state = new NodeMode(input.mode ?? 'running');
  const nodes = new Set<string>();
  state.follow((mode) => tellNodes(nodes, mode));
  if (isLeaf(input.range)) return chargeRange(input, state);
  await runNodes(input, input.range, { nodes, mode: () => state.mode });
  await condition(allHandlersFinished);
}

/** Runs the nodes below a range, a few at a time; used by the run and by groups. */
export async function runNodes(
  input: Omit<ShardInput, 'range' | 'mode'>,
  range: PlanRange,
  control: NodeControl,
): Promise<void> {
  const { namespace, period, reportEvery } = input;
  const window = {
    size: SHARD_WINDOW,
    mayStart: async () => {
      await condition(() => control.mode() !== 'paused');
      return control.mode() === 'running';
    },
  };
  await runInWindow(splitRange(range), window, async (below) => {
    const workflowId = nodeId(input, below);
    const start = () =>
      startChild(billingShard, {
        workflowId,
        // A run that goes on after a stop goes through its shards again; each customer starts once.
        workflowIdReusePolicy: START_AGAIN,
        parentClosePolicy: ParentClosePolicy.TERMINATE,
        args: [{ namespace, period, reportEvery, range: below, mode: control.mode() }],
        staticSummary: `customers ${below.after + 1} to ${below.upTo} of ${period}`,
        typedSearchAttributes: runSearchAttributes(input),
        priority: BATCH_PRIORITY,
      });
    await runNode(workflowId, start, control);
  });
}

function nodeId(run: RunRef, range: PlanRange): string {
  if (isLeaf(range)) return shardWorkflowId(run, shardNumber(range));
  return groupWorkflowId(run, 1, shardNumber(range));
}

async function chargeRange(input: ShardInput, state: NodeMode): Promise<void> {
  const items = await listShard({ namespace: input.namespace, period: input.period }, input.range);
  const report = createReporter(input);
  let suggested = false;
  const window = {
    size: CUSTOMER_WINDOW,
    mayStart: async () => {
      suggested = workflowInfo().continueAsNewSuggested;
      return !suggested && (await state.mayStart());
    },
  };
  const started = await runInWindow(items, window, async (item) => {
    const slot = { namespace: input.namespace, period: input.period, customerId: item.customerId };
    const amount = describeAmount(item.amountMinor, item.currency);
    const result = await runCustomer(slot, {
      workflowIdReusePolicy: START_ONCE,
      priority: BATCH_PRIORITY,
      summary: `${item.customerId} · ${input.period} · ${amount}`,
    });
    // Never over a stop: a stopped run is told nothing any more, so nobody would wake it.
    if (result?.stopsRun === true && state.mode === 'running') state.mode = 'paused';
    report.add(result);
  });
  await report.flush();
  // A guard only: a full shard ends near half of what the server suggests. Nobody is under way here.
  if (suggested && started < items.length && state.mode !== 'stopped') {
    const after = input.range.after + started;
    // The mode goes along, or a paused shard would go on by itself.
    await continueAsNew<typeof billingShard>({
      ...input,
      mode: state.mode,
      range: { ...input.range, after },
    });
  }
}

/** Collects what has ended and tells the run now and then, in the background but never un-awaited. */
function createReporter(input: ShardInput) {
  const root = getExternalWorkflowHandle(runWorkflowId(input));
  let counts = NO_OUTCOMES;
  let pending = NO_OUTCOMES;
  let finished = 0;
  let stopsRun: string | null = null;
  let sending: Promise<void> = Promise.resolve();
  const send = (): void => {
    const report = { finished, counts: pending, stopsRun };
    finished = 0;
    pending = NO_OUTCOMES;
    stopsRun = null;
    sending = sending
      .then(() => root.signal(shardReportSignal, report))
      // The run's own truth is the database; a report that finds no open run is not needed.
      .catch(() => {});
  };
  return {
    add(result: CustomerResult | null): void {
      finished += 1;
      if (result !== null) {
        counts = countOutcome(counts, result.outcome);
        pending = countOutcome(pending, result.outcome);
        if (result.stopsRun) stopsRun = result.reason;
      }
      if (finished >= input.reportEvery || stopsRun !== null) {
        setCurrentDetails(describeCounts(counts));
        send();
      }
    },
    async flush(): Promise<void> {
      setCurrentDetails(describeCounts(counts));
      if (finished > 0) send();
      await sending;
    },
  };
}
