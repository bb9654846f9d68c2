// What a retry policy makes of an attempt's end, and what the workflow is told.
import { ActivityFailure, RetryState, TimeoutFailure } from '@temporalio/common';
import type { ApplicationFailure } from '@temporalio/common';
import { msToNumber, type Duration } from '@temporalio/common/lib/time.js';

export interface ActivityOptions {
  readonly startToCloseTimeout: Duration;
  readonly heartbeatTimeout?: Duration;
  readonly retry?: {
    readonly initialInterval?: Duration;
    readonly backoffCoefficient?: number;
    readonly maximumInterval?: Duration;
    readonly maximumAttempts?: number;
    readonly nonRetryableErrorTypes?: readonly string[];
  };
}

/** How one attempt of an activity ended, as the server sees it. */
export type Ended =
  | { readonly kind: 'completed'; readonly value: unknown }
  | { readonly kind: 'failed'; readonly failure: ApplicationFailure }
  | { readonly kind: 'timedOut'; readonly type: 'START_TO_CLOSE' | 'HEARTBEAT' };

/** Whose slot an activity works on; `run` when it is none. */
export function customerOf(args: readonly unknown[]): string {
  const [first] = args;
  const named = typeof first === 'object' && first !== null && 'customerId' in first;
  return named && typeof first.customerId === 'string' ? first.customerId : 'run';
}

/** Milliseconds until the next attempt. */
export function pauseOf(
  retry: NonNullable<ActivityOptions['retry']>,
  attempt: number,
  ended: Ended,
): number {
  const asked = ended.kind === 'failed' ? ended.failure.nextRetryDelay : undefined;
  if (asked !== undefined && asked !== null) return msToNumber(asked);
  const first = msToNumber(retry.initialInterval ?? 1000);
  const grown = first * (retry.backoffCoefficient ?? 2) ** (attempt - 1);
  return Math.min(grown, msToNumber(retry.maximumInterval ?? first * 100));
}

/** What the workflow catches. */
export function failureOf(activity: string, cause: Error): ActivityFailure {
  return new ActivityFailure(
    'Activity task failed',
    activity,
    '1',
    RetryState.MAXIMUM_ATTEMPTS_REACHED,
    'simulation',
    cause,
  );
}

export function timedOut(type: 'START_TO_CLOSE' | 'HEARTBEAT'): TimeoutFailure {
  return new TimeoutFailure('activity timed out', undefined, type);
}

/** A workflow ID without its run's, for the trace. */
export function short(workflowId: string): string {
  return workflowId.slice(workflowId.indexOf('/') + 1);
}

/** Through JSON, as Temporal's converter does. */
export function copy<T>(value: T): T {
  return value === undefined ? value : JSON.parse(JSON.stringify(value));
}
