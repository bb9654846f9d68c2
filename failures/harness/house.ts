import { randomBytes } from 'node:crypto';
import { chmod, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import {
  DefaultLogger,
  makeTelemetryFilterString,
  NativeConnection,
  Runtime,
} from '@temporalio/worker';
import { Client, escapeIdentifier } from 'pg';
import { openPlatform, type Platform } from '../../src/cli/platform.ts';
import { loadConfig } from '../../src/config.ts';
import { migrate } from '../../src/db/migrate.ts';
import { anyFreePort } from '../../src/embedded/ports.ts';
import { runAll, type Undo } from '../../src/undo.ts';

/** What all exhibits share: a PostgreSQL server and a Temporal dev server, embedded, and nothing that is configured. */
export interface House {
  readonly platform: Platform;
  /** One that nobody has billed here yet: all exhibits share one Temporal. */
  nextPeriod(): string;
  /** An empty database of its own. */
  emptyDatabase(): Promise<string>;
  /** A database with our schema, and nothing in it. */
  migratedDatabase(): Promise<string>;
  close(): Promise<void>;
}

const FIRST_YEAR = 2031;
/** What reaches the embedded parts of the caller's environment; no service that is configured. */
const PASSED_ON = [
  'PATH',
  'HOME',
  'LANG',
  'TMPDIR',
  'TEMPORAL_SOURCES',
  'TEMPORAL_CLI_PATH',
  'CHARGEONCE_CACHE',
  'NODE_COMPILE_CACHE',
];

let quiet = false;
/** Exhibits make workers fail by the dozen; that is the point of them, and no news. */
function quietWorkers(): void {
  if (quiet) return;
  quiet = true;
  Runtime.install({
    shutdownSignals: [],
    logger: new DefaultLogger('ERROR'),
    // Left to itself the SDK's core writes its warnings to standard output, between the lines of JSON.
    telemetryOptions: {
      logging: { forward: {}, filter: makeTelemetryFilterString({ core: 'ERROR' }) },
    },
  });
}

/** Brings the parts up in a folder of their own, which goes with them. */
export async function openHouse(
  env: NodeJS.ProcessEnv,
  note: (message: string) => void,
): Promise<House> {
  quietWorkers();
  const home = await mkdtemp(path.join(tmpdir(), 'chargeonce-failures-'));
  // PostgreSQL does not run as root: its user has to get in, or its data would lie elsewhere and stay.
  await chmod(home, 0o711);
  const undo: Undo = [() => removeHome(home)];
  try {
    const own = Object.fromEntries(PASSED_ON.map((name) => [name, env[name]]));
    const config = loadConfig({ ...own, ...(await ownPorts()), CHARGEONCE_HOME: home });
    const needs = { temporal: true };
    const platform = await openPlatform({ config, env: own, needs, note, embeddedOnly: true });
    undo.push(() => platform.close());
    // The runtime, and its silence, ends with its last connection; without one it would never end, nor the process.
    if (platform.temporal === null) throw new TypeError('the house has no Temporal');
    const held = await NativeConnection.connect(platform.temporal.connection);
    undo.push(() => held.close());
    const databases = databasesOf(platform.databaseUrl.reveal());
    let periods = 0;
    const nextPeriod = (): string => {
      const year = FIRST_YEAR + Math.floor(periods / 12);
      const month = String((periods % 12) + 1).padStart(2, '0');
      periods += 1;
      return `${year}-${month}`;
    };
    return { platform, nextPeriod, ...databases, close: () => runAll(undo) };
  } catch (error) {
    await runAll(undo);
    throw error;
  }
}

/** With the data that lie elsewhere, where PostgreSQL's user cannot get into the folder for temporary files itself. */
async function removeHome(home: string): Promise<void> {
  const moved = await readFile(path.join(home, 'postgres/data-location'), 'utf8').catch(() => '');
  if (path.isAbsolute(moved))
    await rm(path.dirname(moved.trim()), { recursive: true, force: true });
  await rm(home, { recursive: true, force: true });
}

/** Never the usual ports: another stack may be about to take them, and its server is not ours. */
async function ownPorts(): Promise<Record<string, string>> {
  const names = ['POSTGRES_PORT', 'TEMPORAL_PORT', 'TEMPORAL_UI_PORT'];
  const ports = await Promise.all(names.map(async (name) => [name, await anyFreePort()] as const));
  return Object.fromEntries(ports.map(([name, port]) => [name, String(port)]));
}

function databasesOf(serverUrl: string) {
  let template: Promise<string> | undefined;
  const create = async (from?: string): Promise<string> => {
    const name = `exhibit_${randomBytes(6).toString('hex')}`;
    const client = new Client({ connectionString: serverUrl });
    await client.connect();
    try {
      const copy = from === undefined ? '' : ` TEMPLATE ${escapeIdentifier(from)}`;
      await client.query(`CREATE DATABASE ${escapeIdentifier(name)}${copy}`);
    } finally {
      await client.end();
    }
    return name;
  };
  const urlOf = (name: string): string => {
    const url = new URL(serverUrl);
    url.pathname = `/${name}`;
    return url.href;
  };
  return {
    emptyDatabase: async () => urlOf(await create()),
    async migratedDatabase() {
      template ??= create().then(async (name) => {
        await migrate(urlOf(name));
        return name;
      });
      return urlOf(await create(await template));
    },
  };
}
