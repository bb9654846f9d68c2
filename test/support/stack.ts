import type { TestWorkflowEnvironment } from '@temporalio/testing';
import type { ActivityDeps } from '../../src/activities/deps.ts';
import { RunClient } from '../../src/client.ts';
import { Secret } from '../../src/secret.ts';
import type { VaultSettings } from '../../src/provider.ts';
import { startWorker, type RunningWorker } from '../../src/worker.ts';
import { startEngine, TEST_KEY, type Engine, type EngineOptions } from './engine.ts';
import { startDevServerEnvironment, type DevServerOptions } from './temporal-servers.ts';
import { quietRuntime, workflowBundle } from './workflow-bench.ts';

interface WorkerChanges {
  readonly crashPoint?: ActivityDeps['crashPoint'];
  readonly apiKey?: string;
  readonly stripeTimeoutMs?: number;
  /** reaches Stripe through this vault, and has no key of its own */
  readonly vault?: VaultSettings;
}

/** Worker, client, database and simulator around a Temporal server that the file has started. */
export interface Stack extends Engine {
  readonly client: RunClient;
  /** One more worker process's worth of workers, in this process. */
  addWorker(options?: WorkerChanges): Promise<RunningWorker>;
}

/** A dev server whose workers keep quiet about the failures that tests provoke. */
export function startQuietDevServer(options?: DevServerOptions): Promise<TestWorkflowEnvironment> {
  quietRuntime();
  return startDevServerEnvironment(options);
}

/** Makes a deleted workflow go at once: the server waits with it for its queues' next check, 30 s by default. */
export const DELETES_AT_ONCE = ['transfer', 'visibility', 'timer'].flatMap((queue) => [
  '--dynamic-config-value',
  `history.${queue}ProcessorUpdateAckInterval="100ms"`,
]);

/** Pauses between settle rounds, short: what they are about is tested with time skipping. */
const PAUSES_MS = [300, 600, 1_000, 2_000];

function keyOf(engine: Engine, { apiKey, stripeTimeoutMs }: WorkerChanges) {
  return {
    apiKey: new Secret(apiKey ?? TEST_KEY),
    apiBase: engine.simulator.url,
    timeoutMs: stripeTimeoutMs ?? 5_000,
  };
}

/** The real parts, wired as in production. Closing stops the workers first. */
export async function startStack(
  env: TestWorkflowEnvironment,
  options: EngineOptions & { readonly workers?: number } = {},
): Promise<Stack> {
  const engine = await startEngine(options);
  const client = await RunClient.connect({
    connection: { address: env.address },
    namespace: 'default',
  });
  const workers: RunningWorker[] = [];
  const addWorker: Stack['addWorker'] = async (more = {}) => {
    const worker = await startWorker({
      databaseUrl: new Secret(engine.databaseUrl),
      temporal: { connection: { address: env.address }, namespace: 'default' },
      stripe: more.vault === undefined ? keyOf(engine, more) : null,
      vault: more.vault,
      mode: 'test',
      chargesPerSecond: 0,
      reconcilePausesMs: PAUSES_MS,
      absenceQuietMs: 1_000,
      maxCachedWorkflows: 200,
      onDatabaseError: () => {},
      workflowBundle: await workflowBundle(),
      ...(more.crashPoint === undefined ? {} : { crashPoint: more.crashPoint }),
    });
    workers.push(worker);
    return worker;
  };
  for (let i = 0; i < (options.workers ?? 1); i += 1) await addWorker();
  return {
    ...engine,
    client,
    addWorker,
    async close() {
      await Promise.all(workers.map((worker) => worker.shutdown()));
      await client.close();
      await engine.close();
    },
  };
}
