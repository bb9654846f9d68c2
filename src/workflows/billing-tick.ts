import { ApplicationFailure, sleep, startChild, workflowInfo } from '@temporalio/workflow';
import {
  defineSearchAttributeKey,
  SearchAttributeType,
  WorkflowExecutionAlreadyStartedError,
} from '@temporalio/common';
import { parseBillingPeriod, type BillingPeriod } from '../domain/billing-period.ts';
import { FAILURES } from '../domain/failures.ts';
import { runWorkflowId, type RunRef } from '../domain/ids.ts';
import type { BillingNamespace } from '../domain/namespace.ts';
import { periodOfTick, type TickCalendar } from '../domain/tick-period.ts';
import { billingRun } from './billing-run.ts';
import { OUTLIVES_PARENT, readPlan, START_ONCE } from './policies.ts';
import { runSearchAttributes } from './search-attributes.ts';

export interface TickInput extends TickCalendar {
  readonly namespace: BillingNamespace;
  /** given by hand for a missed period; else the Schedule's nominal time decides */
  readonly period?: string;
}

export interface TickResult {
  readonly period: BillingPeriod;
  /** `alreadyStarted` is a success: the period has its run */
  readonly started: 'started' | 'alreadyStarted';
}

const SCHEDULED_START_TIME = defineSearchAttributeKey(
  'TemporalScheduledStartTime',
  SearchAttributeType.DATETIME,
);

/** Planning takes seconds, a minute for a million customers; whoever has the ID longer than this is stuck. */
const LOOKS = 100;
const LOOK_EVERY = '10 seconds';

/**
 * Starts `billing-<period>` and ends. The period comes from the argument or from the Schedule's nominal
 * time, never from the clock, so that a late or back-filled tick bills the period it stands for. Twice,
 * overlapping or from two schedules: one run.
 */
export async function billingTick(input: TickInput): Promise<TickResult> {
  const period = periodOf(input);
  const run = { namespace: input.namespace, period };
  for (let look = 1; look <= LOOKS; look += 1) {
    if (await startRun(run)) return { period, started: 'started' };
    // An order for one customer may have the ID just now: it begins no run, so nobody would.
    if ((await readPlan(run)) !== null) return { period, started: 'alreadyStarted' };
    await sleep(LOOK_EVERY);
  }
  throw ApplicationFailure.nonRetryable(
    `${runWorkflowId(run)} is open and has planned nothing: look at it, then start the run by hand`,
    FAILURES.runNotPlanned,
  );
}

/** False when the run is open, or has completed. */
async function startRun(run: RunRef): Promise<boolean> {
  try {
    // The start is awaited: an abandoned child whose start is not confirmed never starts.
    await startChild(billingRun, {
      workflowId: runWorkflowId(run),
      workflowIdReusePolicy: START_ONCE,
      parentClosePolicy: OUTLIVES_PARENT,
      args: [{ ...run, startedBy: `schedule ${workflowInfo().workflowId}` }],
      staticSummary: `billing run ${run.period} (${run.namespace})`,
      typedSearchAttributes: runSearchAttributes(run),
    });
    return true;
  } catch (error) {
    if (error instanceof WorkflowExecutionAlreadyStartedError) return false;
    throw error;
  }
}

function periodOf(input: TickInput): BillingPeriod {
  if (input.period !== undefined) {
    const parsed = parseBillingPeriod(input.period);
    if (parsed.ok) return parsed.period;
    throw ApplicationFailure.nonRetryable(parsed.problem, FAILURES.periodUnknown);
  }
  const nominal = workflowInfo().typedSearchAttributes.get(SCHEDULED_START_TIME);
  if (nominal !== undefined) {
    return periodOfTick(nominal.getTime(), input);
  }
  throw ApplicationFailure.nonRetryable(
    'the tick was started by hand without a period: pass {"period": "2026-11"}',
    FAILURES.periodUnknown,
  );
}
