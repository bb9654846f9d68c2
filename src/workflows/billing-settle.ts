import { continueAsNew, getExternalWorkflowHandle, workflowInfo } from '@temporalio/workflow';
import { NO_OUTCOMES } from '../domain/charge.ts';
import { runWorkflowId, type RunRef } from '../domain/ids.ts';
import { shardReportSignal, type ShardMode } from './messages.ts';
import { NodeMode } from './node-mode.ts';
import { listOpen, START_AGAIN } from './policies.ts';
import { runCustomer } from './start-child.ts';
import { runInWindow } from './window.ts';

export interface SettleInput extends RunRef {
  /** goes on after this customer */
  readonly after: string;
  /** what the run had ordered when this one began; running when absent */
  readonly mode?: ShardMode;
}

/** Open slots read at once, and customers under way at once. */
const PAGE = 200;
const WINDOW = 25;

/**
 * One settle round: every customer of the run whose outcome is open is attended to again, by
 * the customer's own workflow under its own ID. Reads before it sends; twice does no harm. Paused and
 * stopped like a shard.
 */
export async function billingSettle(input: SettleInput): Promise<void> {
  const run = { namespace: input.namespace, period: input.period };
  const state = new NodeMode(input.mode ?? 'running');
  state.follow();
  let { after } = input;
  for (;;) {
    const page = await listOpen(run, { after, limit: PAGE });
    const window = { size: WINDOW, mayStart: () => state.mayStart() };
    await runInWindow(page, window, async (customerId) => {
      const result = await runCustomer(
        { ...run, customerId },
        { workflowIdReusePolicy: START_AGAIN, summary: `${customerId} · ${run.period} · settle` },
      );
      // A refused key would refuse everybody who is left: wait for the run's word, as a shard does.
      if (result?.stopsRun !== true || state.mode !== 'running') return;
      state.mode = 'paused';
      await reportRefusal(run, result.reason);
    });
    if (page.length < PAGE || state.mode === 'stopped') return;
    after = page.at(-1) ?? after;
    if (workflowInfo().continueAsNewSuggested) {
      await continueAsNew<typeof billingSettle>({ ...input, mode: state.mode, after });
    }
  }
}

/** Tells the run that Stripe refused the key. A run that has just closed needs no telling. */
async function reportRefusal(run: RunRef, reason: string | null): Promise<void> {
  const report = { finished: 0, counts: NO_OUTCOMES, stopsRun: reason };
  const root = getExternalWorkflowHandle(runWorkflowId(run));
  await root.signal(shardReportSignal, report).catch(() => {});
}
