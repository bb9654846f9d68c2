import { spawn, type ChildProcess } from 'node:child_process';
import { chmod, readdir, readFile, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Client } from 'pg';
import { homeLayout } from '../../../src/embedded/home.ts';
import { stopOrphans } from '../../../src/embedded/part-records.ts';
import type { PartRequest, PartStatus, ProcessRequest } from '../../../src/embedded/part-spec.ts';
import { leaseStack, type StackEndpoints, type StackLease } from '../../../src/embedded/stack.ts';
import { defaultCacheDir } from '../../../src/embedded/temporal-binaries.ts';

const COMMAND = fileURLToPath(new URL('./programs/command.ts', import.meta.url));
const ECHO_SERVER = fileURLToPath(new URL('./programs/echo-server.ts', import.meta.url));

/** A state home of its own, with a cleanup that leaves no process behind even when the test failed. */
export async function newHome(): Promise<{ home: string; remove: () => Promise<void> }> {
  const home = await mkdtemp(path.join(tmpdir(), 'chargeonce-stack-'));
  // As root, PostgreSQL runs as another user, who has to pass through; else its data lie elsewhere.
  await chmod(home, 0o711);
  return {
    home,
    async remove() {
      const supervisor = await supervisorPid(home);
      if (supervisor !== undefined) process.kill(supervisor, 'SIGTERM');
      await eventually(
        'the supervisor ends',
        async () => (await supervisorPid(home)) === undefined,
      );
      await stopOrphans(homeLayout(home).parts);
      const moved = await readFile(path.join(home, 'postgres/data-location'), 'utf8').catch(
        () => '',
      );
      if (moved !== '') await rm(path.dirname(moved.trim()), { recursive: true, force: true });
      await rm(home, { recursive: true, force: true });
    },
  };
}

/** The supervisor of a home, found as an outsider would: among all processes. */
export async function supervisorPid(home: string): Promise<number | undefined> {
  for (const entry of await readdir('/proc')) {
    if (!/^\d+$/.test(entry)) continue;
    const command = await readFile(`/proc/${entry}/cmdline`, 'utf8').catch(() => '');
    if (command.includes('supervisor-main.ts') && command.split('\0').includes(home)) {
      return Number(entry);
    }
  }
  return undefined;
}

/** Leases parts from within the test. */
export function lease(
  home: string,
  parts: readonly PartRequest[],
  more: Partial<Parameters<typeof leaseStack>[0]> = {},
): Promise<StackLease> {
  return leaseStack({
    home,
    cacheDir: defaultCacheDir(process.env),
    env: process.env,
    sources: ['wheel'],
    parts,
    ...more,
  });
}

/** A part that echoes, for tests that need no database. */
export function echoPart(more: Partial<ProcessRequest> = {}): ProcessRequest {
  return {
    kind: 'process',
    name: 'echo',
    command: process.execPath,
    args: [ECHO_SERVER, '{{port}}'],
    env: {},
    preferredPort: 25_111,
    url: 'http://127.0.0.1:{{port}}',
    ready: { kind: 'http', url: 'http://127.0.0.1:{{port}}/' },
    ...more,
  };
}

interface Said {
  readonly endpoints?: StackEndpoints;
  readonly parts?: PartStatus[];
  readonly error?: string;
  readonly released?: boolean;
}

/** A command in a process of its own. */
export interface Command {
  readonly child: ChildProcess;
  /** What it got, or the error it ended with. */
  readonly first: Promise<Said>;
  /** Ends its input, and waits until it has released and gone. */
  finish(): Promise<void>;
  kill(): Promise<void>;
}

/** Runs a command that leases parts until it is told to end. */
export function runCommand(home: string, parts: readonly PartRequest[]): Command {
  const child = spawn(process.execPath, [COMMAND, home, JSON.stringify(parts)], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const exited = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  const first = new Promise<Said>((resolve) => {
    createInterface({ input: child.stdout }).on('line', (line) => {
      const said: Said = JSON.parse(line);
      if (said.parts !== undefined || said.error !== undefined) resolve(said);
    });
    void exited.then(() => resolve({ error: 'it ended without a word' }));
  });
  return {
    child,
    first,
    async finish() {
      child.stdin.end();
      await exited;
    },
    async kill() {
      child.kill('SIGKILL');
      await exited;
    },
  };
}

/** Waits for a condition; it failing within the time is the test's failure. */
async function eventually(
  what: string,
  condition: () => boolean | Promise<boolean>,
  timeoutMs = 30_000,
): Promise<void> {
  const deadline = performance.now() + timeoutMs;
  while (!(await condition())) {
    if (performance.now() > deadline) throw new Error(`not within ${timeoutMs} ms: ${what}`);
    await sleep(25);
  }
}

/** The process id of a part that must be running. */
export function pidOf(parts: readonly PartStatus[] | undefined, name: string): number {
  const pid = parts?.find((part) => part.name === name)?.pid;
  if (pid === undefined) throw new Error(`${name} does not run`);
  return pid;
}

/** Runs one statement. */
export async function query(url: string | undefined, sql: string): Promise<unknown[]> {
  const client = new Client({ connectionString: url });
  client.on('error', () => undefined);
  await client.connect();
  try {
    return (await client.query<Record<string, unknown>>(sql)).rows;
  } finally {
    await client.end();
  }
}
