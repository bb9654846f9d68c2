import { hostname } from 'node:os';
import { fileURLToPath } from 'node:url';
import { NativeConnection, Worker, type WorkflowBundleOption } from '@temporalio/worker';
import type {
  NativeConnectionOptions,
  WorkerOptions as TemporalWorkerOptions,
} from '@temporalio/worker';
import type { ActivityDeps } from './activities/deps.ts';
import { Drain } from './activities/drain.ts';
import { createBillingActivities, createChargeActivities } from './activities/index.ts';
import { createPacer } from './activities/pace.ts';
import { openDatabase } from './db/database.ts';
import { temporalPlace } from './client/temporal-place.ts';
import { queryable } from './db/queryable.ts';
import { PostgresIdempotencyStore } from './http/idempotency/postgres-store.ts';
import { ensureEnvironment, requireEnvironment } from './db/environment.ts';
import { BILLING_TASK_QUEUE, CHARGE_TASK_QUEUE } from './domain/ids.ts';
import { assertTimeouts, RECORD_WAIT_MS, SHUTDOWN_GRACE_MS } from './domain/timeouts.ts';
import { openProvider, type ProviderOptions } from './provider.ts';
import type { Secret } from './secret.ts';
import { runAll, type Undo } from './undo.ts';
import { workflowBundle } from './workflow-bundle.ts';

export interface WorkerOptions extends ProviderOptions {
  readonly databaseUrl: Secret;
  readonly temporal: { readonly connection: NativeConnectionOptions; readonly namespace: string };
  /** charges per second over all workers; 0 means no limit */
  readonly chargesPerSecond: number;
  readonly reconcilePausesMs: readonly number[];
  readonly absenceQuietMs: number;
  readonly maxCachedWorkflows: number;
  /** which queues this process serves; both when not given */
  readonly queues?: readonly Queue[];
  /** for the log: an idle database connection broke and is replaced */
  readonly onDatabaseError: (error: Error) => void;
  readonly crashPoint?: ActivityDeps['crashPoint'];
  /** where the bundled workflow code is kept between starts; without it each start bundles anew */
  readonly cacheDir?: string | undefined;
  /** other workflow code than this version's own, for tests */
  readonly workflowBundle?: WorkflowBundleOption;
  /** what that code calls out to, for tests */
  readonly sinks?: TemporalWorkerOptions['sinks'];
}

/** `billing`: workflows, claims and records. `charge`: all calls to Stripe. Each may run in processes of its own. */
type Queue = 'billing' | 'charge';

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
 * Starts the workers of both queues, or of one, in this process. Refuses to start when the database is bound to
 * another Stripe account, mode, server or Temporal, or when time-outs do not fit together.
 */
export async function startWorker(options: WorkerOptions): Promise<RunningWorker> {
  const database = openDatabase({
    url: options.databaseUrl.reveal(),
    applicationName: 'chargeonce worker',
    poolSize: DATABASE_POOL,
    onError: options.onDatabaseError,
  });
  const undo: Undo = [() => database.close()];
  try {
    const provider = openProvider(options, database.db);
    undo.push(async () => provider.close());
    assertTimeouts(provider.timeoutMs);
    const account = await provider.account();
    const connection = await NativeConnection.connect(options.temporal.connection);
    undo.push(() => connection.close());
    const { namespace } = options.temporal;
    const environment = {
      account,
      liveMode: options.mode === 'live',
      temporal: await temporalPlace(connection.workflowService, namespace),
    };
    await ensureEnvironment(database.db, environment);
    const drain = new Drain({ graceMs: SHUTDOWN_GRACE_MS, answerMs: provider.timeoutMs });
    const deps = drain.guard({
      db: database.db,
      gateway: provider.gateway,
      vault: provider.vault,
      account,
      mode: options.mode,
      worker: `${process.pid}@${hostname()}`,
      pace: createPacer(options.chargesPerSecond),
      reconcilePausesMs: options.reconcilePausesMs,
      absenceQuietMs: options.absenceQuietMs,
      storedResponses: new PostgresIdempotencyStore(queryable(database.db)),
      crashPoint: options.crashPoint ?? (async () => {}),
      requireEnvironment: () => requireEnvironment(database.db, environment),
    });
    const { queues = ['billing', 'charge'] } = options;
    const world = { connection, deps, drain, options };
    const billing = queues.includes('billing') ? await createBillingWorker(world) : null;
    const charge = queues.includes('charge') ? await createChargeWorker(world) : null;
    return supervise({ billing, charge }, { drain, undo });
  } catch (error) {
    await runAll(undo);
    throw error;
  }
}

interface World {
  readonly connection: NativeConnection;
  readonly deps: ActivityDeps;
  readonly drain: Drain;
  readonly options: WorkerOptions;
}

async function createBillingWorker({ connection, deps, drain, options }: World): Promise<Worker> {
  return Worker.create({
    connection,
    namespace: options.temporal.namespace,
    taskQueue: BILLING_TASK_QUEUE,
    ...(await workflowCode(options)),
    activities: drain.watchRecords(createBillingActivities(deps)),
    // Explicit: the default grows with the heap and can exhaust it in a burst of starts.
    maxCachedWorkflows: options.maxCachedWorkflows,
    shutdownGraceTime: SHUTDOWN_GRACE_MS,
    ...(options.sinks === undefined ? {} : { sinks: options.sinks }),
  });
}

function createChargeWorker({ connection, deps, drain, options }: World): Promise<Worker> {
  return Worker.create({
    connection,
    namespace: options.temporal.namespace,
    taskQueue: CHARGE_TASK_QUEUE,
    activities: drain.watchCharges(createChargeActivities(deps)),
    maxConcurrentActivityTaskExecutions: MAX_CONCURRENT_CHARGES,
    // Enforced by the server over all workers of the queue; every worker must say the same number.
    ...(options.chargesPerSecond === 0
      ? {}
      : { maxTaskQueueActivitiesPerSecond: options.chargesPerSecond }),
    shutdownGraceTime: SHUTDOWN_GRACE_MS,
  });
}

async function workflowCode(options: WorkerOptions) {
  if (options.workflowBundle !== undefined) return { workflowBundle: options.workflowBundle };
  if (options.cacheDir === undefined) return { workflowsPath: WORKFLOWS_PATH };
  return { workflowBundle: await workflowBundle(options.cacheDir) };
}

/**
 * Runs both until one ends or all are to stop. The charge worker stops first, the billing worker when the charges have
 * drained and are recorded: stopped together, the last charges would wait in Temporal for the next worker's record.
 */
function supervise(
  { billing, charge }: { readonly billing: Worker | null; readonly charge: Worker | null },
  { drain, undo }: { readonly drain: Drain; readonly undo: Readonly<Undo> },
): RunningWorker {
  const asked = Promise.withResolvers<void>();
  const stop = (): void => {
    drain.begin();
    end(charge);
    asked.resolve();
  };
  // One that fails takes the other with it: half a worker would look alive.
  const charges = (async () => {
    await (charge === null ? asked.promise : charge.run()).finally(stop);
    await drain.recorded(RECORD_WAIT_MS);
  })().finally(() => end(billing));
  const bills = (billing === null ? asked.promise : billing.run()).finally(stop);
  const stopped = (async () => {
    try {
      // Both are awaited, so that charges which drain keep their database.
      const ends = await Promise.allSettled([charges, bills]);
      const failed = ends.find((one) => one.status === 'rejected');
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

function end(worker: Worker | null): void {
  if (worker?.getState() === 'RUNNING') worker.shutdown();
}
