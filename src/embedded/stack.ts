import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { tryLock } from './home-lock.ts';
import { homeLayout, type HomeLayout } from './home.ts';
import { stopOrphans } from './part-records.ts';
import type { PartRequest, PartStatus, StackEndpoints } from './part-spec.ts';
import { isAlive } from './processes.ts';
import { isSupervisorMessage, onMessages, PROTOCOL_VERSION, send } from './protocol.ts';
import type { ClientMessage, StackAnswer } from './protocol.ts';
import { connectSupervisor, reachSupervisor } from './supervisor-start.ts';
import { locateTemporalBinary } from './temporal-binaries.ts';
import type { FetchSource } from './temporal-fetch.ts';

export type { PartRequest, PartStatus, ProcessRequest, StackEndpoints } from './part-spec.ts';

/** The supervisor stops nothing any more when it closed the connection; it only has to leave. */
const LEAVE_TIMEOUT_MS = 5_000;
const LEAVE_POLL_MS = 20;

/** What reaches the parts from the caller's environment; all else is given part by part. */
const BASE_VARIABLES = ['PATH', 'HOME', 'LANG', 'TZ', 'TMPDIR'] as const;

export interface StackOptions {
  /** CHARGEONCE_HOME, or `.chargeonce` of the working folder. */
  readonly home: string;
  /** Where fetched binaries are kept; see defaultCacheDir. */
  readonly cacheDir: string;
  readonly parts: readonly PartRequest[];
  /** The value of TEMPORAL_CLI_PATH, when set. */
  readonly temporalCliPath?: string | undefined;
  /** The caller's environment: pip reads it, and PATH, HOME, LANG, TZ and TMPDIR of it reach the parts. */
  readonly env: NodeJS.ProcessEnv;
  readonly sources?: readonly FetchSource[] | undefined;
  readonly onProgress?: ((message: string) => void) | undefined;
  /** Told when a part was started again or given up. */
  readonly onPart?:
    | ((event: { event: 'restarted' | 'failed'; name: string; message: string }) => void)
    | undefined;
  /** Told when the supervisor went away while we hold a lease (somebody killed it). */
  readonly onLost?: (() => void) | undefined;
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
    openSession(socket, options),
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
  const session = socket === undefined ? undefined : await openSession(socket, options);
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

type Question = ClientMessage extends infer M
  ? M extends ClientMessage
    ? Omit<M, 'id'>
    : never
  : never;

interface Session {
  readonly supervisorPid: number;
  ask(question: Question): Promise<StackAnswer>;
  /** Whether the connection ended without our wish. */
  lost(): boolean;
  readonly closed: Promise<void>;
  close(): void;
}

/** Waits for the greeting; undefined when the supervisor is on its way out and turns us away. */
function openSession(socket: Socket, options: StackOptions): Promise<Session | undefined> {
  return new Promise((resolve, reject) => {
    const pending = new Map<number, PromiseWithResolvers<StackAnswer>>();
    const closed = Promise.withResolvers<void>();
    let greeted = false;
    let leaving = false;
    let lost = false;
    let lastId = 0;

    function greet(pid: number): void {
      greeted = true;
      resolve({
        supervisorPid: pid,
        lost: () => lost,
        closed: closed.promise,
        close: () => socket.destroy(),
        ask(question) {
          if (question.ask === 'release') leaving = true;
          lastId += 1;
          const waiting = Promise.withResolvers<StackAnswer>();
          if (socket.destroyed) waiting.reject(lostError());
          else pending.set(lastId, waiting);
          send(socket, { ...question, id: lastId });
          return waiting.promise;
        },
      });
    }

    socket.on('error', () => undefined);
    socket.on('close', () => {
      lost = greeted && !leaving;
      for (const waiting of pending.values()) waiting.reject(lostError());
      closed.resolve();
      if (lost) options.onLost?.();
      resolve(undefined);
    });
    onMessages(socket, isSupervisorMessage, (message) => {
      switch (message.kind) {
        case 'hello':
          if (message.protocol === PROTOCOL_VERSION) greet(message.pid);
          else {
            reject(
              new Error(
                `the embedded parts of this home are held by another version of chargeonce (process ${message.pid})`,
              ),
            );
            socket.destroy();
          }
          break;
        case 'progress':
          options.onProgress?.(message.message);
          break;
        case 'part':
          options.onPart?.(message);
          break;
        case 'answer':
          pending.get(message.id)?.resolve(message.answer);
          pending.delete(message.id);
          break;
        case 'refusal':
          pending.get(message.id)?.reject(new Error(message.message));
          pending.delete(message.id);
          break;
        default:
          message satisfies never;
      }
    });
  });
}

function lostError(): Error {
  return new Error(
    'the supervisor of the embedded parts is gone (was it killed?); start the command again, its state is kept',
  );
}

function leaseOn(session: Session, layout: HomeLayout, options: StackOptions): StackLease {
  let endpoints: StackEndpoints = {};
  let released: Promise<void> | undefined;

  async function giveBack(): Promise<void> {
    if (session.lost()) return await stopWhatIsLeft(layout);
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

async function hasLeft(pid: number): Promise<void> {
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
