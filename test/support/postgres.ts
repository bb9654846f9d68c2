import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { Client, escapeIdentifier } from 'pg';
import { Part } from '../../src/embedded/part.ts';
import { anyFreePort } from '../../src/embedded/ports.ts';
import { postgresSpec, postgresUrl, preparePostgres } from '../../src/embedded/postgres.ts';
import { atEndOfFile } from './end-of-file.ts';
import { POSTGRES_TEMPLATE } from './postgres-template.ts';

const run = promisify(execFile);

/** A database of its own for one test or one file. */
interface TestDatabase {
  readonly name: string;
  readonly url: string;
  /** Drops it with whoever is connected. Not needed at the end: the server goes with all its databases. */
  drop(): Promise<void>;
}

/** One real PostgreSQL server per test process; it stops and its files go when the test file is done. */
export interface TestPostgres {
  readonly port: number;
  /** Of the postmaster; changes with every start. */
  pid(): number;
  url(database?: string): string;
  /** Makes a database, empty or as a clone of another one (~50 ms; nobody may be connected to the template). */
  createDatabase(options?: { readonly template?: string }): Promise<TestDatabase>;
  /** Makes a database once per process and fills it; for cloning. */
  template(name: string, fill: (url: string) => Promise<void>): Promise<string>;
  /** kill -9 of the postmaster; returns when it is gone. */
  kill(): Promise<void>;
  /** Immediate shutdown: no checkpoint, sessions cut, recovery at the next start. */
  immediateStop(): Promise<void>;
  /** Fast shutdown: sessions ended, checkpoint written. */
  stop(): Promise<void>;
  /** Starts it again on the same port and files. */
  start(): Promise<void>;
  /** stop() and start(). */
  restart(): Promise<void>;
}

let shared: Promise<TestPostgres> | undefined;
/** The PostgreSQL server of this test file; started at the first call. */
export function testPostgres(): Promise<TestPostgres> {
  shared ??= startPostgres().then((server) => {
    atEndOfFile(async () => {
      shared = undefined;
    });
    return server;
  });
  return shared;
}

/**
 * A PostgreSQL server apart from the shared one, for tests that kill it. Stopped when the file is done. With
 * `ownIdentity` its system identifier is its own too; others have that of the run's template.
 */
export async function startPostgres(
  settings: Readonly<Record<string, string>> = {},
  { ownIdentity = false }: { readonly ownIdentity?: boolean } = {},
): Promise<TestPostgres> {
  const folder = await mkdtemp(path.join(tmpdir(), 'chargeonce-pg-'));
  // As root the server runs as another user, who has to enter it.
  await chmod(folder, 0o711);
  if (!ownIdentity) await copyOfEmptyCluster(folder);
  const env = { PATH: process.env['PATH'] ?? '' };
  const cluster = await preparePostgres({ folder, env });
  const port = await anyFreePort();
  const spec = postgresSpec(cluster, {
    port,
    env,
    // A killed process loses nothing by this, only a power cut would; each file's many small commits get faster.
    settings: { fsync: 'off', max_connections: '200', ...settings },
  });
  let part: Part | undefined;
  let pid: number | undefined;

  async function start(): Promise<void> {
    part = new Part(
      { ...spec, restart: false },
      {
        log: path.join(folder, 'server.log'),
        recordsFolder: folder,
        order: 0,
        onEvent: () => undefined,
      },
    );
    await part.start();
    ({ pid } = part.status());
  }
  async function end(signal: NodeJS.Signals): Promise<void> {
    if (pid !== undefined && part?.status().pid === pid) process.kill(pid, signal);
    await part?.stop();
    pid = undefined;
  }
  const endWithUs = () => {
    if (pid !== undefined) process.kill(pid, 'SIGQUIT');
  };
  process.once('exit', endWithUs);
  atEndOfFile(async () => {
    await end('SIGQUIT');
    process.off('exit', endWithUs);
    await rm(path.dirname(cluster.dataDir), { recursive: true, force: true });
    await rm(folder, { recursive: true, force: true });
  });
  await start();
  return {
    port,
    pid: () => pid ?? 0,
    url: (database = 'postgres') => postgresUrl(cluster, port, database),
    ...databasesOf((database) => postgresUrl(cluster, port, database)),
    kill: () => end('SIGKILL'),
    immediateStop: () => end('SIGQUIT'),
    stop: () => end('SIGINT'),
    start,
    async restart() {
      await end('SIGINT');
      await start();
    },
  };
}

/**
 * Fills the folder from the cluster that the test run has made once (test/support/postgres-template.ts): a
 * copy takes a tenth of an initdb. Without one, as when vitest is called directly, initdb runs.
 */
async function copyOfEmptyCluster(folder: string): Promise<void> {
  const template = process.env[POSTGRES_TEMPLATE];
  if (template === undefined) return;
  // `cp -a` keeps the owner, who is another user when we are root.
  await run('cp', ['-a', `${template}/.`, folder]);
}

function databasesOf(
  url: (database: string) => string,
): Pick<TestPostgres, 'createDatabase' | 'template'> {
  const templates = new Map<string, Promise<string>>();
  const admin = async (sql: string) => {
    const client = new Client({ connectionString: url('postgres') });
    client.on('error', () => undefined);
    await client.connect();
    try {
      await client.query(sql);
    } finally {
      await client.end();
    }
  };
  return {
    async createDatabase(options = {}) {
      const name = `test_${randomBytes(6).toString('hex')}`;
      const template =
        options.template === undefined ? '' : ` template ${quoted(options.template)}`;
      await admin(`create database ${name}${template}`);
      return {
        name,
        url: url(name),
        drop: () => admin(`drop database if exists ${name} with (force)`),
      };
    },
    template(name, fill) {
      const known = templates.get(name);
      if (known !== undefined) return known;
      const made = (async () => {
        await admin(`create database ${quoted(name)}`);
        await fill(url(name));
        return name;
      })();
      templates.set(name, made);
      return made;
    },
  };
}

function quoted(identifier: string): string {
  return escapeIdentifier(identifier);
}
