import { spawn, type ChildProcess } from 'node:child_process';
import { closeSync, fstatSync, openSync } from 'node:fs';
import { rename, stat } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { forgetPart, recordPart } from './part-records.ts';
import type { PartSpec, PartState, PartStatus } from './part-spec.ts';
import { signalGroup, stopProcess, type ProcessIdentity } from './processes.ts';
import { textSince, waitUntilReady } from './readiness.ts';

const FIRST_BACKOFF_MS = 200;
const MAX_BACKOFF_MS = 5_000;
/** A part that ends this often within the window does not get well by being started once more. */
const MAX_EXITS = 5;
const EXIT_WINDOW_MS = 30_000;
/** A log is kept as one older file from this size on, looked at when the part is first started. */
const LOG_MAX_BYTES = 20_000_000;
const LAST_LINES = 12;
const LAST_BYTES = 8_000;

export interface PartDeps {
  readonly log: string;
  readonly recordsFolder: string;
  readonly order: number;
  /** Told when the part is restarted and when it is given up. */
  readonly onEvent: (event: {
    readonly kind: 'restarted' | 'failed';
    readonly message: string;
  }) => void;
}

/** One child process that is kept running until it is stopped. */
export interface Part {
  /** Starts it and waits until it is ready; throws with its last log lines when it does not get there. */
  start(): Promise<void>;
  /** Stops it for good; called twice it waits for the same end. */
  stop(): Promise<void>;
  status(): PartStatus;
}

interface Running {
  readonly child: ChildProcess;
  readonly identity: ProcessIdentity | undefined;
  readonly logOffset: number;
  ended: string | undefined;
  readonly exited: Promise<void>;
}

/** Makes a part from its spec; nothing runs before start(). */
export function createPart(spec: PartSpec, deps: PartDeps): Part {
  let state: PartState = 'starting';
  let running: Running | undefined;
  let restarts = 0;
  let error: string | undefined;
  let stopping: Promise<void> | undefined;
  let watching: Promise<void> = Promise.resolve();
  const wake = new AbortController();

  async function startOnce(): Promise<void> {
    const now = await launch(spec, deps);
    running = now;
    try {
      await waitUntilReady(spec.ready, {
        log: deps.log,
        logOffset: now.logOffset,
        env: spec.env,
        given: () => now.ended ?? (stopping === undefined ? undefined : 'it is being stopped'),
      });
    } catch (cause) {
      await end(now);
      const lines = await lastLines(deps.log, now.logOffset);
      throw new Error(`${spec.label} did not start: ${reason(cause)}${lines}`, { cause });
    }
    state = 'running';
  }

  async function end(which: Running): Promise<void> {
    if (which.identity !== undefined) {
      await stopProcess(which.identity, { signal: spec.stopSignal, timeoutMs: spec.stopTimeoutMs });
    } else if (which.child.pid !== undefined && which.ended === undefined) {
      signalGroup(which.child.pid, 'SIGKILL');
    }
    await which.exited;
    await forgetPart(deps.recordsFolder, spec.name);
  }

  /** Waits for each end of the process and starts it again, until it is stopped or ends too often. */
  async function keepRunning(): Promise<void> {
    const exits: number[] = [];
    while (stopping === undefined && running !== undefined) {
      await running.exited;
      if (stopping !== undefined) return;
      const now = performance.now();
      exits.push(now);
      const recent = exits.filter((at) => now - at < EXIT_WINDOW_MS).length;
      const what = error ?? `${spec.label} ${running.ended ?? 'ended'}`;
      if (!spec.restart || recent >= MAX_EXITS) return await giveUp(what, recent);
      state = 'restarting';
      const backoffMs = Math.min(FIRST_BACKOFF_MS * 2 ** (recent - 1), MAX_BACKOFF_MS);
      await sleep(backoffMs, undefined, { signal: wake.signal }).catch(() => undefined);
      if (stopping !== undefined) return;
      restarts += 1;
      error = await startOnce().then(
        () => undefined,
        (cause: unknown) => reason(cause),
      );
      if (error === undefined)
        deps.onEvent({ kind: 'restarted', message: `${what}; started again` });
    }
  }

  async function giveUp(what: string, recent: number): Promise<void> {
    const lines = await lastLines(deps.log, running?.logOffset ?? 0);
    const often = spec.restart
      ? ` (${recent} times within ${EXIT_WINDOW_MS / 1000} s: given up)`
      : '';
    state = 'failed';
    error = what.includes(deps.log) ? `${what}${often}` : `${what}${often}${lines}`;
    await forgetPart(deps.recordsFolder, spec.name);
    deps.onEvent({ kind: 'failed', message: error });
  }

  return {
    async start() {
      await keepLogSmall(deps.log);
      for (let attempt = 1; ; attempt += 1) {
        try {
          await startOnce();
          break;
        } catch (cause) {
          if (attempt >= spec.startAttempts || stopping !== undefined) {
            state = 'failed';
            error = reason(cause);
            throw cause;
          }
          await sleep(FIRST_BACKOFF_MS * 2 ** attempt);
        }
      }
      watching = keepRunning();
    },
    stop() {
      stopping ??= (async () => {
        wake.abort();
        const before = running;
        if (before !== undefined) await end(before);
        await watching;
        // The watcher may have been in the middle of a restart.
        if (running !== undefined && running !== before) await end(running);
        state = 'stopped';
      })();
      if (state !== 'stopped') state = 'stopping';
      return stopping;
    },
    status() {
      const pid = running?.ended === undefined ? running?.child.pid : undefined;
      return {
        name: spec.name,
        state,
        restarts,
        log: deps.log,
        ...(pid === undefined ? {} : { pid }),
        ...(error === undefined || state === 'running' ? {} : { error }),
      };
    },
  };
}

async function launch(spec: PartSpec, deps: PartDeps): Promise<Running> {
  // The child writes to the file itself: it can go on when this process is killed.
  const descriptor = openSync(deps.log, 'a', 0o600);
  const logOffset = fstatSync(descriptor).size;
  const child = spawn(spec.command, spec.args, {
    env: spec.env,
    // A group of its own: what it starts can be ended with it, and a terminal's Ctrl-C does not reach it.
    detached: true,
    stdio: ['ignore', descriptor, descriptor],
    ...(spec.cwd === undefined ? {} : { cwd: spec.cwd }),
    ...spec.runAs,
  });
  closeSync(descriptor);
  const exited = Promise.withResolvers<void>();
  let ended: string | undefined;
  child.once('error', (cause) => {
    ended ??= `cannot be run: ${cause.message}`;
    exited.resolve();
  });
  child.once('exit', (code, signal) => {
    ended ??= signal === null ? `ended with exit code ${code}` : `was ended by ${signal}`;
    exited.resolve();
  });
  const identity =
    child.pid === undefined
      ? undefined
      : await recordPart(deps.recordsFolder, spec, { pid: child.pid, order: deps.order });
  return {
    child,
    identity,
    logOffset,
    exited: exited.promise,
    get ended() {
      return ended;
    },
  };
}

async function keepLogSmall(log: string): Promise<void> {
  const size = await stat(log).then(
    (entry) => entry.size,
    () => 0,
  );
  if (size > LOG_MAX_BYTES) await rename(log, `${log}.1`);
}

/** The end of a log as text for a message, with the file's name; never what earlier starts wrote. */
async function lastLines(log: string, offset: number): Promise<string> {
  const text = (await textSince(log, offset)).slice(-LAST_BYTES).trim();
  if (text === '') return `\n  (nothing in ${log})`;
  const lines = text.split('\n').slice(-LAST_LINES);
  return `\n  last lines of ${log}:\n${lines.map((line) => `    ${line}`).join('\n')}`;
}

function reason(cause: unknown): string {
  return cause instanceof Error ? cause.message : String(cause);
}
