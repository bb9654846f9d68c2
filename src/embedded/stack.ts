import { setTimeout as sleep } from 'node:timers/promises';
import { tryLock } from './home-lock.ts';
import { homeLayout, type HomeLayout } from './home.ts';
import { stopOrphans } from './part-records.ts';
import type { PartRequest, PartStatus, StackEndpoints } from './part-spec.ts';
import { isAlive } from './processes.ts';
import { Session, type SessionListeners } from './session.ts';
import { connectSupervisor, reachSupervisor } from './supervisor-start.ts';
import { locateTemporalBinary } from './temporal-binaries.ts';
import type { FetchSource } from './temporal-fetch.ts';

export type { PartRequest, ProcessRequest, StackEndpoints } from './part-spec.ts';

/** The supervisor stops nothing any more when it closed the connection; it only has to leave. */
const LEAVE_TIMEOUT_MS = 5_000;
const LEAVE_POLL_MS = 20;

/** What reaches the parts from the caller's environment; all else is given part by part. bin/chargeonce sets the last. */
const BASE_VARIABLES = ['PATH', 'HOME', 'LANG', 'TZ', 'TMPDIR', 'NODE_COMPILE_CACHE'] as const;

export interface StackOptions extends SessionListeners {
  /** CHARGEONCE_HOME, or `.chargeonce` of the working folder. */
  readonly home: string;
  /** Where fetched binaries are kept; see defaultCacheDir. */
  readonly cacheDir: string;
  readonly parts: readonly PartRequest[];
  /** The value of TEMPORAL_CLI_PATH, when set. */
  readonly temporalCliPath?: string | undefined;
  /** The caller's environment: pip reads it, and BASE_VARIABLES of it reach the parts. */
  readonly env: NodeJS.ProcessEnv;
  readonly sources?: readonly FetchSource[] | undefined;
}

/** What a command holds of the shared stack. It ends by release(), or with the process, however that ends. */
export interface StackLease {
  /** Of the parts that this lease holds. */
  readonly endpoints: StackEndpoints;
  status(): Promise<PartStatus[]>;
  /** Asks for more parts; asking again for one that is held is fine. */
  ensure(parts: readonly PartRequest[]): Promise<StackEndpoints>;
  /**
   * Gives all back and waits until what nobody else holds is stopped. Afterwards nothing runs that only this
   * command needed. Called twice it waits for the same end.
   */
  release(): Promise<void>;
}

/** Leases parts of the embedded stack of a home, starting what does not run yet. */
export async function leaseStack(options: StackOptions): Promise<StackLease> {
  const layout = homeLayout(options.home);
  const parts = await withExecutables(options.parts, options);
  const session = await reachSupervisor(layout, baseEnv(options.env), (socket) =>
    Session.open(socket, options),
  );
  const lease = leaseOn(session, layout, options);
  try {
    await lease.ensure(parts);
    return lease;
  } catch (error) {
    await lease.release();
    throw error;
  }
}

/** The stack of a home when it runs already; undefined, and nothing started, when it does not. */
export async function findStack(options: StackOptions): Promise<StackLease | undefined> {
  const layout = homeLayout(options.home);
  const socket = await connectSupervisor(layout.socket);
  const session = socket === undefined ? undefined : await Session.open(socket, options);
  return session === undefined ? undefined : leaseOn(session, layout, options);
}

async function withExecutables(
  parts: readonly PartRequest[],
  options: StackOptions,
): Promise<PartRequest[]> {
  const located: PartRequest[] = [];
  for (const part of parts) {
    if (part.kind !== 'temporal' || part.executable !== undefined) located.push(part);
    else {
      const executable = await locateTemporalBinary('temporal', {
        configuredPath: options.temporalCliPath,
        path: options.env['PATH'],
        cacheDir: options.cacheDir,
        env: options.env,
        sources: options.sources,
        onProgress: options.onProgress,
      });
      located.push({ ...part, executable });
    }
  }
  return located;
}

function baseEnv(env: NodeJS.ProcessEnv): Record<string, string> {
  const base: Record<string, string> = {};
  for (const name of BASE_VARIABLES) {
    const value = env[name];
    if (value !== undefined) base[name] = value;
  }
  return base;
}

function leaseOn(session: Session, layout: HomeLayout, options: StackOptions): StackLease {
  let endpoints: StackEndpoints = {};
  let released: Promise<void> | undefined;

  async function giveBack(): Promise<void> {
    if (session.lost) return await stopWhatIsLeft(layout);
    const answer = await session.ask({ ask: 'release' }).catch(() => undefined);
    if (answer === undefined || answer.ending) {
      await session.closed;
      await hasLeft(session.supervisorPid);
    }
    session.close();
  }

  return {
    get endpoints() {
      return endpoints;
    },
    async status() {
      return [...(await session.ask({ ask: 'status' })).parts];
    },
    async ensure(parts) {
      const located = await withExecutables(parts, options);
      const answer = await session.ask({ ask: 'ensure', parts: located, pid: process.pid });
      ({ endpoints } = answer);
      return endpoints;
    },
    release() {
      released ??= giveBack();
      return released;
    },
  };
}

async function hasLeft(pid: number | undefined): Promise<void> {
  if (pid === undefined) return;
  const deadline = performance.now() + LEAVE_TIMEOUT_MS;
  while (isAlive(pid) && performance.now() < deadline) await sleep(LEAVE_POLL_MS);
}

/** Nobody holds the parts of a killed supervisor; we do its last duty, unless a new one already has the home. */
async function stopWhatIsLeft(layout: HomeLayout): Promise<void> {
  const lock = tryLock(layout.lock);
  if (lock === undefined) return;
  try {
    await stopOrphans(layout.parts);
  } finally {
    lock.release();
  }
}
