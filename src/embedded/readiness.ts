import { execFile } from 'node:child_process';
import { open } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import type { Readiness } from './part-spec.ts';
import { accepts } from './test-server-check.ts';

const POLL_MS = 60;
const PROBE_TIMEOUT_MS = 5_000;
/** PostgreSQL replays its log after a crash before it answers; a minute covers max_wal_size on a slow disk. */
const DEFAULT_TIMEOUT_MS = 60_000;

export interface ReadinessWatch {
  /** The part's log and how long it was before this start. */
  readonly log: string;
  readonly logOffset: number;
  readonly env: Readonly<Record<string, string>>;
  /** Says why waiting is over: the process has ended, or the part is being stopped. */
  readonly given: () => string | undefined;
}

/** Waits until a part can be used; throws when it ends before or the time is over. */
export async function waitUntilReady(ready: Readiness, watch: ReadinessWatch): Promise<void> {
  const timeoutMs = ready.timeoutMs ?? DEFAULT_TIMEOUT_MS;
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    const why = watch.given();
    if (why !== undefined) throw new Error(why);
    if (await probe(ready, watch)) return;
    if (performance.now() > deadline) throw new Error(`was not ready after ${timeoutMs / 1000} s`);
    await sleep(POLL_MS);
  }
}

async function probe(ready: Readiness, watch: ReadinessWatch): Promise<boolean> {
  switch (ready.kind) {
    case 'tcp':
      return ready.port !== undefined && (await accepts(ready.port));
    case 'http':
      return await answersHttp(ready.url);
    case 'postgres':
      return await answersQuery(ready.url);
    case 'command':
      return await succeeds(ready.command, ready.args, watch.env);
    case 'stdout-line':
      return new RegExp(ready.pattern, 'm').test(await textSince(watch.log, watch.logOffset));
    default:
      return ready satisfies never;
  }
}

async function answersHttp(url: string): Promise<boolean> {
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(PROBE_TIMEOUT_MS) });
    await response.body?.cancel();
    return response.status < 500;
  } catch {
    return false;
  }
}

async function answersQuery(url: string): Promise<boolean> {
  const client = new Client({
    connectionString: url,
    connectionTimeoutMillis: PROBE_TIMEOUT_MS,
  });
  client.on('error', () => undefined);
  try {
    await client.connect();
    await client.query('select 1');
    return true;
  } catch {
    return false;
  } finally {
    await client.end().catch(() => undefined);
  }
}

function succeeds(
  command: string,
  args: readonly string[],
  env: Readonly<Record<string, string>>,
): Promise<boolean> {
  return new Promise((resolve) => {
    execFile(command, args, { env, timeout: PROBE_TIMEOUT_MS }, (error) => resolve(error === null));
  });
}

/** What was written to a file since it had this length. */
export async function textSince(file: string, offset: number): Promise<string> {
  const handle = await open(file, 'r').catch(() => undefined);
  if (handle === undefined) return '';
  try {
    const { size } = await handle.stat();
    const buffer = Buffer.alloc(Math.max(0, size - offset));
    await handle.read(buffer, 0, buffer.length, offset);
    return buffer.toString('utf8');
  } finally {
    await handle.close();
  }
}
