import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chown, mkdir, mkdtemp, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { Client } from 'pg';
import type { PartSpec, UserIds } from './part-spec.ts';
import { canReach, locatePostgres, outsideFolderFor } from './postgres-binaries.ts';
import { commandLineOf, startTimeOf, stopProcess } from './processes.ts';
import { isRecord } from './untyped.ts';

const run = promisify(execFile);

const SUPERUSER = 'chargeonce';
const DATABASE = 'chargeonce';
const INITDB_TIMEOUT_MS = 120_000;
/** A fast shutdown writes a checkpoint; on a slow disk that takes seconds. */
const STOP_TIMEOUT_MS = 30_000;

/** Durable, because money hangs on it, and small, because the same machine runs everything else. */
const SETTINGS: Readonly<Record<string, string>> = {
  listen_addresses: '127.0.0.1',
  unix_socket_directories: '',
  fsync: 'on',
  synchronous_commit: 'on',
  shared_buffers: '128MB',
  max_connections: '100',
  max_wal_size: '1GB',
  checkpoint_timeout: '15min',
};

/** A data folder that is ready to be served. */
export interface PostgresCluster {
  readonly dataDir: string;
  readonly password: string;
  readonly binDir: string;
  readonly runAs?: UserIds;
}

export interface PrepareOptions {
  /** Folder of ours; the data go to `data` below it, or elsewhere when PostgreSQL's user cannot enter it. */
  readonly folder: string;
  readonly env: Readonly<Record<string, string>>;
  readonly onProgress?: (message: string) => void;
}

/**
 * Makes the data folder at the first call and finds it again at every later one. What was left by a server that
 * was killed is cleared: a postmaster of this very folder is stopped, a stale pid file removed.
 */
export async function preparePostgres(options: PrepareOptions): Promise<PostgresCluster> {
  const binaries = await locatePostgres();
  await mkdir(options.folder, { recursive: true, mode: 0o711 });
  const password = await ownPassword(options.folder);
  const dataDir = await dataFolder(options, binaries.runAs);
  const cluster: PostgresCluster = { dataDir, password, ...binaries };
  if (await exists(path.join(dataDir, 'PG_VERSION'))) await clearLeftovers(dataDir);
  else {
    options.onProgress?.('creating the PostgreSQL data folder');
    await initialise(cluster, options);
  }
  return cluster;
}

async function ownPassword(folder: string): Promise<string> {
  const file = path.join(folder, 'password');
  const known = await readFile(file, 'utf8').catch(() => undefined);
  if (known !== undefined && known.trim() !== '') return known.trim();
  const password = randomBytes(24).toString('base64url');
  await writeFile(file, `${password}\n`, { mode: 0o600 });
  return password;
}

/** Usually `data` below our folder; when root's folder is closed to PostgreSQL's user, one outside, remembered. */
async function dataFolder(options: PrepareOptions, runAs: UserIds | undefined): Promise<string> {
  const inside = path.join(options.folder, 'data');
  if (runAs === undefined) return inside;
  const pointer = path.join(options.folder, 'data-location');
  const known = await readFile(pointer, 'utf8').catch(() => undefined);
  if (known !== undefined && (await exists(known.trim()))) return known.trim();
  if (await canReach(options.folder, runAs, 'folder')) return inside;
  const outside = path.join(await outsideFolderFor(runAs), 'data');
  await mkdir(outside, { mode: 0o700 });
  await writeFile(pointer, `${outside}\n`);
  options.onProgress?.(
    `the PostgreSQL data go to ${outside}: PostgreSQL does not run as root, and its user cannot enter ${options.folder}`,
  );
  return outside;
}

async function initialise(cluster: PostgresCluster, options: PrepareOptions): Promise<void> {
  const parent = path.dirname(cluster.dataDir);
  const scratch = await mkdtemp(path.join(parent, '.init-'));
  const fresh = path.join(scratch, 'data');
  const passwordFile = path.join(scratch, 'password');
  await writeFile(passwordFile, `${cluster.password}\n`, { mode: 0o600 });
  await mkdir(fresh, { mode: 0o700 });
  if (cluster.runAs !== undefined) {
    const { uid, gid } = cluster.runAs;
    for (const entry of [scratch, fresh, passwordFile]) await chown(entry, uid, gid);
  }
  const args = [
    `--pgdata=${fresh}`,
    `--username=${SUPERUSER}`,
    `--pwfile=${passwordFile}`,
    '--auth=scram-sha-256',
    '--encoding=UTF8',
    // Built into PostgreSQL: sorts the same on every machine, whatever locales it has.
    '--locale-provider=builtin',
    '--builtin-locale=C.UTF-8',
    '--locale=C',
  ];
  try {
    await run(path.join(cluster.binDir, 'initdb'), args, {
      ...cluster.runAs,
      cwd: scratch,
      env: { ...options.env, LC_ALL: 'C' },
      timeout: INITDB_TIMEOUT_MS,
    });
    // By rename, so that an initdb that was cut short is never taken for a database.
    await rm(cluster.dataDir, { recursive: true, force: true });
    await rename(fresh, cluster.dataDir);
  } catch (error) {
    const stderr = isRecord(error) ? error['stderr'] : undefined;
    throw new Error(`PostgreSQL's initdb failed: ${String(stderr ?? error).trim()}`, {
      cause: error,
    });
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
}

async function clearLeftovers(dataDir: string): Promise<void> {
  const pidFile = path.join(dataDir, 'postmaster.pid');
  const text = await readFile(pidFile, 'utf8').catch(() => undefined);
  const pid = Number(text?.split('\n')[0]);
  if (text === undefined || !Number.isSafeInteger(pid) || pid <= 1) return;
  const startedAt = await startTimeOf(pid);
  const command = startedAt === undefined ? undefined : await commandLineOf(pid);
  if (startedAt !== undefined && command?.includes(dataDir) === true) {
    await stopProcess({ pid, startedAt }, { signal: 'SIGINT', timeoutMs: STOP_TIMEOUT_MS });
    return;
  }
  // In a container that was restarted the same id is soon another process, which PostgreSQL would take for itself.
  await rm(pidFile, { force: true });
}

/** The server of a cluster as a part of the stack. */
export function postgresSpec(
  cluster: PostgresCluster,
  how: {
    readonly port: number;
    readonly env: Readonly<Record<string, string>>;
    readonly settings?: Readonly<Record<string, string>>;
  },
): PartSpec {
  const settings = { ...SETTINGS, ...how.settings };
  const flags = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  return {
    name: 'postgres',
    label: 'PostgreSQL',
    command: path.join(cluster.binDir, 'postgres'),
    args: ['-D', cluster.dataDir, '-p', String(how.port), ...flags],
    env: { ...how.env, LC_ALL: 'C' },
    cwd: cluster.dataDir,
    ...(cluster.runAs === undefined ? {} : { runAs: cluster.runAs }),
    ready: { kind: 'postgres', url: postgresUrl(cluster, how.port, 'postgres') },
    ports: [how.port],
    restart: true,
    // Fast shutdown: ends the sessions, writes a checkpoint, stops.
    stopSignal: 'SIGINT',
    stopTimeoutMs: STOP_TIMEOUT_MS,
    startAttempts: 3,
  };
}

/** The connection URL of a database of this cluster. */
export function postgresUrl(cluster: PostgresCluster, port: number, database = DATABASE): string {
  return `postgres://${SUPERUSER}:${cluster.password}@127.0.0.1:${port}/${database}`;
}

/** Creates the database `chargeonce`; called again it does nothing. */
export async function ensureDatabase(cluster: PostgresCluster, port: number): Promise<void> {
  const client = new Client({ connectionString: postgresUrl(cluster, port, 'postgres') });
  client.on('error', () => undefined);
  await client.connect();
  try {
    const { rowCount } = await client.query('select 1 from pg_database where datname = $1', [
      DATABASE,
    ]);
    if (rowCount === 0) await client.query(`create database ${DATABASE}`);
  } finally {
    await client.end();
  }
}

async function exists(file: string): Promise<boolean> {
  return await stat(file).then(
    () => true,
    () => false,
  );
}
