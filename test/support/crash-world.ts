import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { bundleWorkflowCode, DefaultLogger } from '@temporalio/worker';
import { Client as Pg, type QueryResultRow } from 'pg';
import { RunClient } from '../../src/client.ts';
import { migrate } from '../../src/db/migrate.ts';
import { startSimulator, type Simulator } from '../../src/simulator/index.ts';
import { startTemporal, type TemporalProcess } from './chaos.ts';
import { waitFor } from './cli.ts';
import { startStripeGate, type StripeGate } from './crash-gate.ts';
import { startPostgresProxy, type PostgresProxy } from './crash-pg-proxy.ts';
import { startTcpProxy, type TcpProxy } from './crash-tcp-proxy.ts';
import type { CrashPlan } from './crash-worker.ts';
import { startPostgres, type TestPostgres } from './postgres.ts';

const WORKFLOWS = fileURLToPath(new URL('../../src/workflows/index.ts', import.meta.url));
const INTERCEPTORS = fileURLToPath(new URL('./crash-interceptors.ts', import.meta.url));
const WORKER = fileURLToPath(new URL('./crash-worker.ts', import.meta.url));
const READY_TIMEOUT_MS = 40_000;

/** A shard of more customers than its window is long enough to continue as new after this many events. */
const SHORT_HISTORY = ['--dynamic-config-value', 'limit.historyCount.suggestContinueAsNew=60'];

/** A worker process that halts customers where its plan says. */
export interface CrashWorker {
  /** Resolves when this customer, or workflow, is halted; rejects when the process ends before. */
  reached(who: string): Promise<void>;
  release(...who: readonly string[]): void;
  /** kill -9; returns when it is gone. */
  kill(): Promise<void>;
}

export interface CrashWorld {
  readonly postgres: TestPostgres;
  readonly databaseUrl: string;
  readonly proxy: PostgresProxy;
  readonly simulator: Simulator;
  readonly gate: StripeGate;
  readonly temporal: TemporalProcess;
  /** between the workers of the queue `charge` and the Temporal server */
  readonly network: TcpProxy;
  readonly client: RunClient;
  startWorker(plan: Pick<CrashPlan, 'queues' | 'parks'>): Promise<CrashWorker>;
  query<Row extends QueryResultRow>(sql: string, values?: readonly unknown[]): Promise<Row[]>;
  close(): Promise<void>;
}

/** Every part as a process of its own, with a place to hold or lose what goes between them. */
export async function startCrashWorld(customers: readonly string[]): Promise<CrashWorld> {
  const folder = await mkdtemp(path.join(tmpdir(), 'chargeonce-crash-'));
  const bundle = path.join(folder, 'workflows.js');
  const [postgres, temporal, simulator] = await Promise.all([
    startPostgres(),
    startTemporal({ file: path.join(folder, 'temporal.db'), flags: SHORT_HISTORY }),
    startSimulator({ endpointRate: 0, accountRate: 0 }),
    bundleWorkflows(bundle),
  ]);
  const { url: databaseUrl } = await postgres.createDatabase();
  await migrate(databaseUrl);
  const proxy = await startPostgresProxy({ upstreamPort: postgres.port });
  const gate = await startStripeGate(simulator.url);
  const network = await startTcpProxy(Number(temporal.address.split(':')[1]));
  const client = await RunClient.connect({
    connection: { address: temporal.address },
    namespace: 'default',
  });
  const workers: CrashWorker[] = [];
  const query: CrashWorld['query'] = (sql, values) => ask(databaseUrl, sql, values);
  await query(
    `insert into customers (customer_id, stripe_customer_id, payment_method_id, amount_minor, currency, active)
     select id, 'cus_' || id, 'pm_card_visa', 1500, 'usd', false from unnest($1::text[]) id`,
    [customers],
  );
  return {
    postgres,
    databaseUrl,
    proxy,
    simulator,
    gate,
    temporal,
    network,
    client,
    query,
    async startWorker({ queues, parks }) {
      const worker = await startProcess({
        queues,
        parks,
        bundle,
        databaseUrl: proxy.through(databaseUrl),
        temporalAddress: queues.includes('billing') ? temporal.address : network.address,
        stripeBase: gate.url,
      });
      workers.push(worker);
      return worker;
    },
    async close() {
      await Promise.all(workers.map((worker) => worker.kill()));
      await client.close();
      await Promise.all([network.close(), gate.close(), proxy.close()]);
      await simulator.close();
      await temporal.kill();
      await rm(folder, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}

async function bundleWorkflows(file: string): Promise<void> {
  const { code } = await bundleWorkflowCode({
    workflowsPath: WORKFLOWS,
    workflowInterceptorModules: [INTERCEPTORS],
    logger: new DefaultLogger('ERROR'),
  });
  await writeFile(file, code);
}

async function startProcess(plan: CrashPlan): Promise<CrashWorker> {
  const child = spawn(process.execPath, [WORKER, JSON.stringify(plan)], {
    env: { PATH: process.env['PATH'] ?? '', HOME: process.env['HOME'] ?? tmpdir() },
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  let said = '';
  let errors = '';
  let over = false;
  createInterface({ input: child.stdout }).on('line', (line) => (said += `${line}\n`));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (errors += text));
  child.stdin.on('error', () => {});
  child.once('exit', () => (over = true));
  const shows = async (line: string): Promise<void> => {
    await waitFor(() => over || said.includes(`${line}\n`), {
      timeoutMs: READY_TIMEOUT_MS,
      otherwise: () => `no "${line}" from a worker: ${said}${errors.slice(-3_000)}`,
    });
    if (!said.includes(`${line}\n`)) throw new Error(`a worker ended: ${errors.slice(-3_000)}`);
  };
  await shows('ready');
  return {
    reached: (who) => shows(`reached ${plan.parks[who] ?? 'no point of'} ${who}`),
    release(...who) {
      for (const one of who) child.stdin.write(`release ${one}\n`);
    },
    async kill() {
      if (over) return;
      child.kill('SIGKILL');
      await once(child, 'exit');
    },
  };
}

async function ask<Row extends QueryResultRow>(
  url: string,
  sql: string,
  values: readonly unknown[] = [],
): Promise<Row[]> {
  const client = new Pg({ connectionString: url, connectionTimeoutMillis: 2_000 });
  client.on('error', () => {});
  try {
    await client.connect();
    return (await client.query<Row>(sql, [...values])).rows;
  } finally {
    await client.end().catch(() => {});
  }
}
