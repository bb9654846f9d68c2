import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Client as Pg, type QueryResultRow } from 'pg';
import { expect } from 'vitest';
import { RunClient } from '../../src/client.ts';
import { migrate } from '../../src/db/migrate.ts';
import { parseBillingPeriod } from '../../src/domain/billing-period.ts';
import type { RunRef } from '../../src/domain/ids.ts';
import { DEFAULT_NAMESPACE } from '../../src/domain/namespace.ts';
import { anyFreePort } from '../../src/embedded/ports.ts';
import { devServerFlags } from '../../src/embedded/temporal-dev-server.ts';
import {
  startSimulator,
  type Simulator,
  type SimulatorOptions,
} from '../../src/simulator/index.ts';
import { waitFor } from './cli.ts';
import { atEndOfFile } from './end-of-file.ts';
import { startPostgres, type TestPostgres } from './postgres.ts';
import { temporalBinary } from './temporal-servers.ts';

const CLI = fileURLToPath(new URL('../../src/cli.ts', import.meta.url));
const START_TIMEOUT_MS = 40_000;
const POLL_MS = 100;

/** A real process that a test kills, freezes and starts again. */
interface TestProcess {
  readonly pid: number;
  output(): string;
  signal(signal: NodeJS.Signals): void;
  /** kill -9, and waits until it is gone. */
  kill(): Promise<void>;
  /** Waits until it ended by itself. */
  gone(): Promise<void>;
  /** null while it runs, or when a signal ended it */
  exitCode(): number | null;
}

const started = new Set<ChildProcess>();
/** What the processes of the running test have said. */
const outputs = new Set<() => string>();

/** Ends what a test left behind, so that the next one starts on a quiet machine. */
export async function killAll(): Promise<void> {
  outputs.clear();
  for (const child of started) child.kill('SIGKILL');
  await Promise.all([...started].map((child) => exitOf(child)));
}

function run(command: string, args: readonly string[], env: Record<string, string>): TestProcess {
  const child = spawn(command, args, { env, stdio: ['ignore', 'pipe', 'pipe'] });
  started.add(child);
  atEndOfFile(async () => {
    child.kill('SIGKILL');
    await exitOf(child);
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => (output += text));
  }
  outputs.add(() => output);
  return {
    pid: child.pid ?? 0,
    output: () => output,
    signal: (signal) => void child.kill(signal),
    async kill() {
      child.kill('SIGKILL');
      await exitOf(child);
    },
    gone: () => exitOf(child),
    exitCode: () => child.exitCode,
  };
}

async function exitOf(child: ChildProcess): Promise<void> {
  if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
  started.delete(child);
}

/** A dev server that a test may kill -9 and start again on its port, from its file or with nothing. */
export interface TemporalProcess {
  readonly address: string;
  readonly uiUrl: string;
  start(): Promise<void>;
  kill(): Promise<void>;
}

/** Starts `temporal server start-dev`: from a file, or in memory, where a kill loses every history. */
export async function startTemporal(options: {
  readonly file?: string;
  /** a bare server, as somebody else would run it: without our search attributes */
  readonly bare?: boolean;
  /** further flags of `temporal server start-dev` */
  readonly flags?: readonly string[];
}): Promise<TemporalProcess> {
  const executable = await temporalBinary('temporal');
  const [port, uiPort, metricsPort] = [
    await anyFreePort(),
    await anyFreePort(),
    await anyFreePort(),
  ];
  const args = [
    ...'server start-dev --ip 127.0.0.1 --log-level error'.split(' '),
    ...`--port ${port} --ui-port ${uiPort} --metrics-port ${metricsPort}`.split(' '),
    ...(options.file === undefined ? [] : ['--db-filename', options.file]),
    ...(options.bare === true ? [] : devServerFlags()),
    ...(options.flags ?? []),
  ];
  const address = `127.0.0.1:${port}`;
  let server: TestProcess;
  const temporal: TemporalProcess = {
    address,
    uiUrl: `http://127.0.0.1:${uiPort}`,
    async start() {
      server = run(executable, args, { PATH: process.env['PATH'] ?? '', HOME: tmpdir() });
      await waitFor(() => answers(address), {
        timeoutMs: START_TIMEOUT_MS,
        otherwise: () => `the Temporal server did not start: ${server.output()}`,
      });
    },
    kill: () => server.kill(),
  };
  await temporal.start();
  return temporal;
}

async function answers(address: string): Promise<boolean> {
  try {
    const client = await connect(address);
    try {
      await client.temporal.workflowService.describeNamespace({ namespace: 'default' });
      // Visibility comes up last.
      await client.temporal.workflowService.countWorkflowExecutions({ namespace: 'default' });
      return true;
    } finally {
      await client.close();
    }
  } catch {
    return false;
  }
}

function connect(address: string): Promise<RunClient> {
  return RunClient.connect({
    connection: { address, connectTimeout: 2_000 },
    namespace: 'default',
  });
}

/** Every part as a process of its own, save the simulator, whose insides the test reads. */
export interface World {
  readonly postgres: TestPostgres;
  readonly databaseUrl: string;
  readonly temporal: TemporalProcess;
  readonly simulator: Simulator;
  readonly run: RunRef;
  startWorker(): Promise<TestProcess>;
  /** Starts the period's run. */
  startRun(): Promise<void>;
  query<Row extends QueryResultRow>(sql: string): Promise<Row[]>;
  charged(): Promise<number>;
  /** Waits for some charges in the database, so that a fault falls into the middle. */
  reaches(charges: number): Promise<void>;
  /** Waits until the run is completed; throws with how it stands when it takes too long. */
  completes(timeoutMs: number): Promise<void>;
}

export interface WorldOptions {
  readonly customers: number;
  readonly chargesPerSecond: number;
  readonly stripeTimeoutMs?: number;
  readonly simulator?: SimulatorOptions;
}

/** PostgreSQL, a Temporal server, a simulator and customers; nothing runs yet. */
export async function startWorld(options: WorldOptions): Promise<World> {
  const folder = await mkdtemp(path.join(tmpdir(), 'chargeonce-chaos-'));
  const postgres = await startPostgres();
  const { url: databaseUrl } = await postgres.createDatabase();
  await migrate(databaseUrl);
  const file = path.join(folder, 'temporal.db');
  const temporal = await startTemporal({ file });
  const simulator = await startSimulator({ endpointRate: 0, accountRate: 0, ...options.simulator });
  atEndOfFile(async () => {
    await simulator.close();
    await rm(folder, { recursive: true, force: true, maxRetries: 5 });
  });
  const query = async <Row extends QueryResultRow>(sql: string): Promise<Row[]> => {
    const client = new Pg({ connectionString: databaseUrl, connectionTimeoutMillis: 2_000 });
    client.on('error', () => {});
    try {
      await client.connect();
      return (await client.query<Row>(sql)).rows;
    } finally {
      await client.end().catch(() => {});
    }
  };
  await query(`
    insert into customers (customer_id, stripe_customer_id, payment_method_id, amount_minor, currency)
    select 'c' || n, 'cus_c' || n,
           case when n % 10 = 0 then 'pm_card_chargeCustomerFail' else 'pm_card_visa' end, 1000 + n, 'usd'
    from generate_series(1, ${options.customers}) n`);
  const period = parseBillingPeriod('2026-09');
  if (!period.ok) throw new Error(period.problem);
  const runRef: RunRef = { namespace: DEFAULT_NAMESPACE, period: period.period };
  const world: World = {
    postgres,
    databaseUrl,
    temporal,
    simulator,
    run: runRef,
    query,
    startWorker: () => startWorker(world, options),
    async startRun() {
      const client = await connect(temporal.address);
      try {
        await client.startRun(runRef, 'chaos');
      } finally {
        await client.close();
      }
    },
    async charged() {
      const [row] = await query<{ n: string }>(
        `select count(*) as n from billing_charges where state = 'charged'`,
      );
      return Number(row?.n ?? 0);
    },
    reaches: (charges) => {
      return waitFor(async () => (await world.charged()) >= charges, { timeoutMs: 60_000 });
    },
    async completes(timeoutMs) {
      const deadline = performance.now() + timeoutMs;
      while ((await runState(world)) !== 'completed') {
        if (performance.now() > deadline) throw new Error(await whyOpen(world));
        await sleep(POLL_MS);
      }
    },
  };
  return world;
}

/** The run's state, or '' while the database is away. */
async function runState(world: World): Promise<string> {
  const rows = await world
    .query<{ state: string }>('select state from billing_runs')
    .catch(() => []);
  return rows[0]?.state ?? '';
}

async function whyOpen(world: World): Promise<string> {
  const states = await world.query<{ state: string; n: string }>(
    'select state, count(*) as n from billing_charges group by state',
  );
  const counts = states.map(({ state, n }) => `${n} ${state}`).join(', ');
  const logs = [...outputs].map((output) => output().slice(-2_000)).join('\n---\n');
  return `the run is ${await runState(world)}: ${counts}\n${logs}`;
}

async function startWorker(world: World, options: WorldOptions): Promise<TestProcess> {
  const worker = run(process.execPath, [CLI, 'worker'], {
    PATH: process.env['PATH'] ?? '',
    HOME: process.env['HOME'] ?? tmpdir(),
    NODE_COMPILE_CACHE: process.env['NODE_COMPILE_CACHE'] ?? '',
    DATABASE_URL: world.databaseUrl,
    TEMPORAL_ADDRESS: world.temporal.address,
    TEMPORAL_CONFIG_FILE: '/dev/null',
    STRIPE_API_KEY: 'sk_test_chaos',
    STRIPE_API_BASE: world.simulator.url,
    CHARGES_PER_SECOND: String(options.chargesPerSecond),
    STRIPE_TIMEOUT_MS: String(options.stripeTimeoutMs ?? 30_000),
    RECONCILE_PAUSES: '1s,1s,2s,3s,5s',
    LOG_LEVEL: 'error',
  });
  await waitFor(() => /worker is ready/.test(worker.output()), {
    timeoutMs: START_TIMEOUT_MS,
    otherwise: () => `the worker did not start: ${worker.output()}`,
  });
  return worker;
}

interface SlotRow {
  readonly customer_id: string;
  readonly state: string;
  readonly generation: number;
  readonly amount_minor: number | null;
}

/**
 * Reads the provider's ledger, grouped by metadata and never by our key, and our tables, and compares them customer by
 * customer: nobody charged twice, nobody lost, every outcome final, each key sent with one body.
 */
export async function expectChargedOnce(world: World, customers: number): Promise<void> {
  const slots = await world.query<SlotRow>(
    'select customer_id, state, generation from billing_charges order by customer_id',
  );
  expect(slots.length, 'slots').toBe(customers);
  const { entries } = world.simulator.ledger();
  const succeeded = new Map<string, number>();
  const intents = new Map<string, number>();
  for (const entry of entries) {
    const customer = entry.metadata['chargeonce_customer'] ?? 'nobody';
    intents.set(customer, (intents.get(customer) ?? 0) + 1);
    for (const charge of entry.charges) {
      if (charge.status !== 'succeeded') continue;
      succeeded.set(customer, (succeeded.get(customer) ?? 0) + 1);
      expect(charge.amount, `amount of ${customer}`).toBe(1000 + Number(customer.slice(1)));
    }
  }
  const wrong = slots.filter(({ customer_id: id, state, generation }) => {
    const declines = Number(id.slice(1)) % 10 === 0;
    const charges = succeeded.get(id) ?? 0;
    const asExpected = declines
      ? state === 'declined' && charges === 0
      : state === 'charged' && charges === 1;
    return !asExpected || generation !== 1 || intents.get(id) !== 1;
  });
  expect(wrong).toEqual([]);
  expectOneBodyPerKey(world.simulator);
}

function expectOneBodyPerKey(simulator: Simulator): void {
  const bodies = new Map<string, Set<string>>();
  const attempts: string[] = [];
  for (const request of simulator.requests()) {
    if (request.method !== 'POST' || request.idempotencyKey === null) continue;
    const seen = bodies.get(request.idempotencyKey) ?? new Set();
    if (request.bodyHash !== null)
      bodies.set(request.idempotencyKey, seen.add(`${request.path} ${request.bodyHash}`));
    attempts.push(request.attemptId ?? '');
  }
  expect([...bodies.values()].filter((seen) => seen.size > 1)).toEqual([]);
  expect(new Set(attempts).size, 'attempt ids').toBe(attempts.length);
}

/** Sends whose key had been sent before: what a fault made the run do again. */
export function repeatedSends(simulator: Simulator): number {
  const keys = simulator
    .requests()
    .flatMap((request) => (request.idempotencyKey === null ? [] : [request.idempotencyKey]));
  return keys.length - new Set(keys).size;
}
