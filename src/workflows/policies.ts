import {
  ParentClosePolicy,
  proxyActivities,
  proxyLocalActivities,
  WorkflowIdReusePolicy,
} from '@temporalio/workflow';
import type { BillingActivities, ChargeActivities } from '../activities/index.ts';
import { FAILURES } from '../domain/failures.ts';
import { BILLING_TASK_QUEUE, CHARGE_TASK_QUEUE } from '../domain/ids.ts';
import {
  HEARTBEAT_TIMEOUT_MS,
  CHARGE_MAXIMUM_ATTEMPTS,
  CHARGE_START_TO_CLOSE_MS,
  RECONCILE_MAXIMUM_ATTEMPTS,
} from '../domain/timeouts.ts';

/**
 * Claim and record are local: no queue, one marker, half the history. They run at least once even so,
 * which the unique row and the fence make harmless. They retry until Postgres is back.
 */
const local = proxyLocalActivities<BillingActivities>({
  startToCloseTimeout: '8 seconds',
  // Longer waits become timers, so that a database outage does not keep the workflow task open.
  localRetryThreshold: '5 seconds',
  retry: {
    initialInterval: '200 milliseconds',
    backoffCoefficient: 2,
    maximumInterval: '10 seconds',
  },
});
export const { claimSlot, record } = local;

/** How orders were decided once; only runs that began so go on with it. */
export const decideRerunLocally = local.decideRerun;

/**
 * Not local: orders come in crowds, and several local activities that end within one workflow task are not
 * replayed in the order in which they ended, so that the run's next worker could not go on with it.
 */
export const { decideRerun } = proxyActivities<BillingActivities>({
  taskQueue: BILLING_TASK_QUEUE,
  startToCloseTimeout: '15 seconds',
  retry: {
    initialInterval: '200 milliseconds',
    backoffCoefficient: 2,
    maximumInterval: '10 seconds',
  },
});

/** Planning and lists: Postgres only, and too slow for a local activity at 100,000 customers. */
export const {
  planRun,
  readPlan,
  moveRun,
  listShard,
  listOpen,
  readTotals,
  logOrder,
  listSweep,
  purge,
  noteSweep,
} = proxyActivities<BillingActivities>({
  taskQueue: BILLING_TASK_QUEUE,
  startToCloseTimeout: '6 minutes',
  // Without it a worker that is killed while it lists or plans would hold the run for all of that time.
  heartbeatTimeout: HEARTBEAT_TIMEOUT_MS,
  retry: {
    initialInterval: '500 milliseconds',
    backoffCoefficient: 2,
    maximumInterval: '30 seconds',
  },
});

/**
 * The only calls to Stripe. One retry owner: this policy, always with the same key. When it is spent
 * the outcome is indeterminate and the settle rounds ask Stripe.
 */
export const { charge } = proxyActivities<ChargeActivities>({
  taskQueue: CHARGE_TASK_QUEUE,
  startToCloseTimeout: CHARGE_START_TO_CLOSE_MS,
  heartbeatTimeout: HEARTBEAT_TIMEOUT_MS,
  summary: 'create and confirm the PaymentIntent',
  retry: {
    initialInterval: '1 second',
    backoffCoefficient: 2,
    maximumInterval: '30 seconds',
    maximumAttempts: CHARGE_MAXIMUM_ATTEMPTS,
    nonRetryableErrorTypes: [FAILURES.invariantBroken, FAILURES.keyMissing],
  },
});

/** Reads at Stripe only; shares the queue because it shares the rate limit. */
export const { reconcile, look } = proxyActivities<ChargeActivities>({
  taskQueue: CHARGE_TASK_QUEUE,
  startToCloseTimeout: CHARGE_START_TO_CLOSE_MS,
  heartbeatTimeout: HEARTBEAT_TIMEOUT_MS,
  summary: 'ask Stripe what became of the charge',
  retry: {
    initialInterval: '1 second',
    backoffCoefficient: 2,
    maximumInterval: '30 seconds',
    maximumAttempts: RECONCILE_MAXIMUM_ATTEMPTS,
    nonRetryableErrorTypes: [FAILURES.invariantBroken],
  },
});

/**
 * Ticks and fan-out: a closed run or customer is started again only when it did not complete (failed,
 * terminated, timed out). Two open ones with one ID are impossible in any case.
 */
export const START_ONCE = WorkflowIdReusePolicy.ALLOW_DUPLICATE_FAILED_ONLY;

/** Reruns, settle rounds and shards of a run that goes on: what completed undecided runs again; the slot guards. */
export const START_AGAIN = WorkflowIdReusePolicy.ALLOW_DUPLICATE;

/** The run outlives the tick that started it; shards and customers end with their parent. */
export const OUTLIVES_PARENT = ParentClosePolicy.ABANDON;

/** Operators' reruns overtake the batch (1 is first, 3 the default of everything else). */
export const RERUN_PRIORITY = { priorityKey: 1 };
export const BATCH_PRIORITY = { priorityKey: 4 };
