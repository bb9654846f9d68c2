import { ApplicationFailure, TemporalFailure } from '@temporalio/common';
import { WorkflowFailedError, type WorkflowHandle } from '@temporalio/client';
import type { TestWorkflowEnvironment } from '@temporalio/testing';
import { DefaultLogger, Runtime, Worker, type WorkflowBundlePath } from '@temporalio/worker';
import type { BillingActivities, ChargeActivities } from '../../src/activities/index.ts';
import {
  BILLING_TASK_QUEUE,
  CHARGE_TASK_QUEUE,
  runWorkflowId,
  type RunRef,
} from '../../src/domain/ids.ts';
import { defaultCacheDir } from '../../src/embedded/temporal-binaries.ts';
import { workflowBundle as bundleFrom } from '../../src/workflow-bundle.ts';
import type { billingRun, RunInput } from '../../src/workflows/billing-run.ts';
import { FakeWorld } from './fakes.ts';
import { runRef } from './names.ts';
import { startTimeSkippingEnvironment } from './temporal-servers.ts';

/** The workflow code as a worker runs it, out of the cache that workers have: made once for all test files. */
export function workflowBundle(): Promise<WorkflowBundlePath> {
  quietRuntime();
  return bundleFrom(defaultCacheDir(process.env));
}

let quiet = false;
/** Tests provoke failures by the dozen; only what a test does not expect should be seen. */
export function quietRuntime(): void {
  if (quiet) return;
  quiet = true;
  Runtime.install({
    logger: new DefaultLogger('ERROR', () => {}),
    telemetryOptions: { logging: { forward: {}, filter: 'OFF' } },
  });
}

/** The time-skipping server with a worker on each of our queues, whose activities are a fake world's. */
export interface Bench {
  readonly env: TestWorkflowEnvironment;
  /** A new world and a period of its own. The world before it is gone. */
  world(customers: readonly string[]): { readonly world: FakeWorld; readonly run: RunRef };
  start(run: RunRef, more?: Partial<RunInput>): Promise<WorkflowHandle<typeof billingRun>>;
  close(): Promise<void>;
}

export async function startBench(): Promise<Bench> {
  quietRuntime();
  const env = await startTimeSkippingEnvironment();
  // The test server knows none but those it is told of; production does this in `chargeonce setup`.
  await registerSearchAttributes(env);
  let current = new FakeWorld([]);
  const workflowCode = await workflowBundle();
  const workers = [
    await Worker.create({
      connection: env.nativeConnection,
      taskQueue: BILLING_TASK_QUEUE,
      workflowBundle: workflowCode,
      activities: billingOf(() => current),
    }),
    await Worker.create({
      connection: env.nativeConnection,
      taskQueue: CHARGE_TASK_QUEUE,
      activities: chargingOf(() => current),
    }),
  ];
  const running = Promise.all(workers.map((worker) => worker.run()));
  let period = 0;
  return {
    env,
    world(customers) {
      current = new FakeWorld(customers);
      period += 1;
      return { world: current, run: runRef(`2030-01-${String(period).padStart(2, '0')}`) };
    },
    start: (run, more = {}) =>
      env.client.workflow.start<typeof billingRun>('billingRun', {
        workflowId: runWorkflowId(run),
        taskQueue: BILLING_TASK_QUEUE,
        args: [{ ...run, startedBy: 'test', ...more }],
      }),
    async close() {
      for (const worker of workers) worker.shutdown();
      await running;
      await env.teardown();
    },
  };
}

function billingOf(world: () => FakeWorld): BillingActivities {
  return {
    claimSlot: (...args) => world().billing.claimSlot(...args),
    record: (...args) => world().billing.record(...args),
    planRun: (...args) => world().billing.planRun(...args),
    readPlan: (...args) => world().billing.readPlan(...args),
    moveRun: (...args) => world().billing.moveRun(...args),
    listShard: (...args) => world().billing.listShard(...args),
    listOpen: (...args) => world().billing.listOpen(...args),
    readTotals: (...args) => world().billing.readTotals(...args),
    decideRerun: (...args) => world().billing.decideRerun(...args),
    listSweep: (...args) => world().billing.listSweep(...args),
    noteSweep: (...args) => world().billing.noteSweep(...args),
    purge: () => world().billing.purge(),
    logOrder: (...args) => world().billing.logOrder(...args),
  };
}

function chargingOf(world: () => FakeWorld): ChargeActivities {
  return {
    charge: (...args) => world().charging.charge(...args),
    reconcile: (...args) => world().charging.reconcile(...args),
    look: (...args) => world().charging.look(...args),
  };
}

/** Ids of that many customers, in order. */
export const people = (n: number) =>
  Array.from({ length: n }, (_, i) => `c${String(i).padStart(4, '0')}`);

/** Waits for a condition that the workflow under test brings about. */
export async function until(what: string, holds: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = Date.now() + 40_000;
  while (Date.now() < deadline) {
    if (await holds()) return;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  throw new Error(`waited in vain: ${what}`);
}

/** Registers our Keyword attributes at a server that was started without them. */
async function registerSearchAttributes(env: TestWorkflowEnvironment): Promise<void> {
  // temporal.api.enums.v1.IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD; the enum's package is none of ours.
  const keyword: number = 2;
  const names = ['BillingPeriod', 'BillingNamespace', 'BillingOutcome'];
  await env.connection.operatorService.addSearchAttributes({
    namespace: env.namespace ?? 'default',
    searchAttributes: Object.fromEntries(names.map((name) => [name, keyword])),
  });
}

/** A promise with its handle, for activities that wait for the test. */
export function gate(): { readonly opened: Promise<void>; open(): void } {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { opened: promise, open: resolve };
}

/** The failure type a workflow ended with; a success is a failed test. */
export async function failureOf(result: Promise<unknown>): Promise<string | null | undefined> {
  try {
    await result;
  } catch (error) {
    if (!(error instanceof WorkflowFailedError)) throw error;
    let cause: Error | undefined = error.cause;
    while (cause instanceof TemporalFailure && !(cause instanceof ApplicationFailure))
      cause = cause.cause;
    return cause instanceof ApplicationFailure ? cause.type : cause?.name;
  }
  throw new Error('the workflow was expected to fail');
}
