import { hostname } from 'node:os';
import { fileURLToPath } from 'node:url';
import { NativeConnection, Worker, type WorkflowBundleOption } from '@temporalio/worker';
import type { NativeConnectionOptions } from '@temporalio/worker';
import type { ActivityDeps } from './activities/deps.ts';
import { createBillingActivities, createChargeActivities } from './activities/index.ts';
import { createPacer } from './activities/pace.ts';
import { openDatabase } from './db/database.ts';
import { ensureEnvironment } from './db/environment.ts';
import { BILLING_TASK_QUEUE, CHARGE_TASK_QUEUE } from './domain/ids.ts';
import { assertTimeouts, SHUTDOWN_GRACE_MS } from './domain/timeouts.ts';
import { stripeAccount } from './payments/stripe-account.ts';
import { createStripeGateway } from './payments/stripe-gateway.ts';
import type { Secret } from './secret.ts';
import { workflowBundle } from './workflow-bundle.ts';

export interface StripeAccess {
  readonly apiKey: Secret;
  readonly apiBase?: string | undefined;
  /** for keys that may not read their own account */
  readonly accountId?: string | undefined;
  readonly timeoutMs: number;
}

export interface WorkerOptions {
  readonly databaseUrl: Secret;
  readonly temporal: { readonly connection: NativeConnectionOptions; readonly namespace: string };
  readonly stripe: StripeAccess;
  readonly mode: 'test' | 'live';
  /** charges per second over all workers; 0 means no limit */
  readonly chargesPerSecond: number;
  readonly reconcilePausesMs: readonly number[];
  readonly maxCachedWorkflows: number;
  /** for the log: an idle database connection broke and is replaced */
  readonly onDatabaseError: (error: Error) => void;
  readonly crashPoint?: ActivityDeps['crashPoint'];
  /** where the bundled workflow code is kept between starts; without it each start bundles anew */
  readonly cacheDir?: string | undefined;
  /** other workflow code than this version's own, for tests */
  readonly workflowBundle?: WorkflowBundleOption;
}

export interface RunningWorker {
  /** settles when the worker has stopped; rejects when it failed */
  readonly stopped: Promise<void>;
  /** lets charges in flight finish, then stops; twice waits for the same end */
  shutdown(): Promise<void>;
}

/** Charges under way at once in this process: rate × latency × 2 (24/s × 2 s), with room. */
const MAX_CONCURRENT_CHARGES = 100;
/** Database connections: local activities of both windows, and the charges between their sends. */
const DATABASE_POOL = 20;
const WORKFLOWS_PATH = fileURLToPath(new URL('./workflows/index.ts', import.meta.url));

/**
 * Starts the workers of both queues in this process. Refuses to start when the database belongs to
 * another Stripe account or mode, or when time-outs do not fit together.
 */
export async function startWorker(options: WorkerOptions): Promise<RunningWorker> {
  assertTimeouts(options.stripe.timeoutMs);
  const database = openDatabase({
    url: options.databaseUrl.reveal(),
    applicationName: 'chargeonce worker',
    poolSize: DATABASE_POOL,
    onError: options.onDatabaseError,
  });
  const gateway = createStripeGateway({
    apiKey: options.stripe.apiKey.reveal(),
    apiBase: options.stripe.apiBase,
    timeoutMs: options.stripe.timeoutMs,
  });
  const undo: (() => Promise<void>)[] = [() => database.close(), async () => gateway.close()];
  try {
    const account = await stripeAccount(gateway, options.stripe);
    await ensureEnvironment(database.db, { account, liveMode: options.mode === 'live' });
    const deps: ActivityDeps = {
      db: database.db,
      gateway,
      account,
      mode: options.mode,
      worker: `${process.pid}@${hostname()}`,
      pace: createPacer(options.chargesPerSecond),
      reconcilePausesMs: options.reconcilePausesMs,
      crashPoint: options.crashPoint ?? (async () => {}),
    };
    const connection = await NativeConnection.connect(options.temporal.connection);
    undo.push(() => connection.close());
    const workers = await createWorkers(connection, deps, options);
    return supervise(workers, undo);
  } catch (error) {
    await runAll(undo);
    throw error;
  }
}

async function createWorkers(
  connection: NativeConnection,
  deps: ActivityDeps,
  options: WorkerOptions,
): Promise<readonly Worker[]> {
  const { namespace } = options.temporal;
  const billing = await Worker.create({
    connection,
    namespace,
    taskQueue: BILLING_TASK_QUEUE,
    ...(await workflowCode(options)),
    activities: createBillingActivities(deps),
    // Explicit: the default grows with the heap and can exhaust it in a burst of starts.
    maxCachedWorkflows: options.maxCachedWorkflows,
    shutdownGraceTime: SHUTDOWN_GRACE_MS,
  });
  const charge = await Worker.create({
    connection,
    namespace,
    taskQueue: CHARGE_TASK_QUEUE,
    activities: createChargeActivities(deps),
    maxConcurrentActivityTaskExecutions: MAX_CONCURRENT_CHARGES,
    // Enforced by the server over all workers of the queue; every worker must say the same number.
    ...(options.chargesPerSecond === 0
      ? {}
      : { maxTaskQueueActivitiesPerSecond: options.chargesPerSecond }),
    shutdownGraceTime: SHUTDOWN_GRACE_MS,
  });
  return [billing, charge];
}

async function workflowCode(options: WorkerOptions) {
  if (options.workflowBundle !== undefined) return { workflowBundle: options.workflowBundle };
  if (options.cacheDir === undefined) return { workflowsPath: WORKFLOWS_PATH };
  return { workflowBundle: await workflowBundle(options.cacheDir) };
}

function supervise(
  workers: readonly Worker[],
  undo: readonly (() => Promise<void>)[],
): RunningWorker {
  const stop = (): void => {
    for (const worker of workers) if (worker.getState() === 'RUNNING') worker.shutdown();
  };
  const stopped = (async () => {
    try {
      // One that fails takes the other with it: half a worker would look alive. Both are awaited, so
      // that charges which drain keep their database.
      const ends = await Promise.allSettled(workers.map((worker) => worker.run().finally(stop)));
      const failed = ends.find((end) => end.status === 'rejected');
      if (failed !== undefined) throw failed.reason;
    } finally {
      await runAll(undo);
    }
  })();
  return {
    stopped,
    async shutdown() {
      stop();
      await stopped;
    },
  };
}

/** Closes in reverse order of opening; one that fails does not keep the others open. */
async function runAll(undo: readonly (() => Promise<void>)[]): Promise<void> {
  for (const step of undo.toReversed()) {
    await step().catch(() => {});
  }
}
