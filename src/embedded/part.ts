import { spawn, type ChildProcess } from 'node:child_process';
import { closeSync, fstatSync, openSync } from 'node:fs';
import { rename, stat } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { forgetPart, recordPart } from './part-records.ts';
import type { PartSpec, PartState, PartStatus } from './part-spec.ts';
import { strangerOn } from './ports.ts';
import { signalGroup, stopProcess, type ProcessIdentity } from './processes.ts';
import { errorMessage } from './untyped.ts';
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

interface Running {
  readonly child: ChildProcess;
  readonly identity: ProcessIdentity | undefined;
  readonly logOffset: number;
  /** How it ended, once it has. */
  readonly ended: string | undefined;
  readonly exited: Promise<void>;
}

/** One child process that is kept running until it is stopped. */
export class Part {
  readonly #spec: PartSpec;
  readonly #deps: PartDeps;
  readonly #wake = new AbortController();
  #state: PartState = 'starting';
  #running: Running | undefined;
  #restarts = 0;
  #error: string | undefined;
  #stopping: Promise<void> | undefined;
  #watching: Promise<void> = Promise.resolve();

  constructor(spec: PartSpec, deps: PartDeps) {
    this.#spec = spec;
    this.#deps = deps;
  }

  /** Starts it and waits until it is ready; throws with its last log lines when it does not get there. */
  async start(): Promise<void> {
    await keepLogSmall(this.#deps.log);
    for (let attempt = 1; ; attempt += 1) {
      try {
        await this.#startOnce();
        break;
      } catch (cause) {
        if (attempt >= this.#spec.startAttempts || this.#isStopping()) {
          this.#state = 'failed';
          this.#error = errorMessage(cause);
          throw cause;
        }
        await this.#pause(FIRST_BACKOFF_MS * 2 ** attempt);
      }
    }
    this.#watching = this.#keepRunning();
  }

  /** Stops it for good; called twice it waits for the same end. */
  stop(): Promise<void> {
    if (this.#state !== 'stopped') this.#state = 'stopping';
    this.#stopping ??= this.#stopOnce();
    return this.#stopping;
  }

  status(): PartStatus {
    const running = this.#running?.ended === undefined ? this.#running : undefined;
    const pid = running?.child.pid;
    return {
      name: this.#spec.name,
      state: this.#state,
      restarts: this.#restarts,
      log: this.#deps.log,
      ...(pid === undefined ? {} : { pid }),
      ...(this.#error === undefined ? {} : { error: this.#error }),
    };
  }

  /** A method, because it changes while others await. */
  #isStopping(): boolean {
    return this.#stopping !== undefined;
  }

  async #pause(ms: number): Promise<void> {
    await sleep(ms, undefined, { signal: this.#wake.signal }).catch(() => undefined);
  }

  async #startOnce(): Promise<void> {
    const now = await launch(this.#spec, this.#deps);
    this.#running = now;
    try {
      await waitUntilReady(this.#spec.ready, {
        log: this.#deps.log,
        logOffset: now.logOffset,
        env: this.#spec.env,
        given: () => now.ended ?? (this.#isStopping() ? 'it is being stopped' : undefined),
      });
      await this.#holdsItsPorts(now);
    } catch (cause) {
      await this.#end(now);
      const lines = await lastLines(this.#deps.log, now.logOffset);
      throw new Error(`${this.#spec.label} did not start: ${errorMessage(cause)}${lines}`, {
        cause,
      });
    }
    if (!this.#isStopping()) this.#state = 'running';
  }

  /**
   * Throws when another process answers in its place. Two homes that start at the same moment may choose one
   * port: the loser would take the winner's server for its own until its process ends, and bill through it.
   */
  async #holdsItsPorts({ child }: Running): Promise<void> {
    if (child.pid === undefined) return;
    for (const port of this.#spec.ports) {
      const stranger = await strangerOn(port, child.pid);
      if (stranger === undefined) continue;
      throw new Error(`port ${port}, which was free a moment ago, is now held by ${stranger}`);
    }
  }

  async #end(which: Running): Promise<void> {
    const { stopSignal: signal, stopTimeoutMs: timeoutMs } = this.#spec;
    if (which.identity !== undefined) await stopProcess(which.identity, { signal, timeoutMs });
    else if (which.child.pid !== undefined && which.ended === undefined) {
      signalGroup(which.child.pid, 'SIGKILL');
    }
    await which.exited;
    await forgetPart(this.#deps.recordsFolder, this.#spec.name);
  }

  /** Waits for each end of the process and starts it again, until it is stopped or ends too often. */
  async #keepRunning(): Promise<void> {
    const exits: number[] = [];
    while (this.#running !== undefined) {
      await this.#running.exited;
      if (this.#isStopping()) return;
      const now = performance.now();
      exits.push(now);
      const recent = exits.filter((at) => now - at < EXIT_WINDOW_MS).length;
      const what = this.#error ?? `${this.#spec.label} ${this.#running.ended ?? 'ended'}`;
      if (!this.#spec.restart || recent >= MAX_EXITS) {
        await this.#giveUp(what, recent);
        return;
      }
      this.#state = 'restarting';
      await this.#pause(Math.min(FIRST_BACKOFF_MS * 2 ** (recent - 1), MAX_BACKOFF_MS));
      if (this.#isStopping()) return;
      this.#restarts += 1;
      this.#error = await this.#startOnce().then(() => undefined, errorMessage);
      if (this.#error === undefined && !this.#isStopping()) {
        this.#deps.onEvent({ kind: 'restarted', message: `${what}; started again` });
      }
    }
  }

  async #giveUp(what: string, recent: number): Promise<void> {
    const often = this.#spec.restart
      ? `${this.#spec.label} ended ${recent} times within ${EXIT_WINDOW_MS / 1000} s and is given up: `
      : '';
    const { log } = this.#deps;
    const lines = what.includes(log) ? '' : await lastLines(log, this.#running?.logOffset ?? 0);
    this.#state = 'failed';
    this.#error = `${often}${what}${lines}`;
    await forgetPart(this.#deps.recordsFolder, this.#spec.name);
    this.#deps.onEvent({ kind: 'failed', message: this.#error });
  }

  async #stopOnce(): Promise<void> {
    this.#wake.abort();
    const before = this.#running;
    if (before !== undefined) await this.#end(before);
    await this.#watching;
    // The watcher may have been in the middle of a restart.
    const after = this.#running;
    if (after !== undefined && after !== before) await this.#end(after);
    this.#state = 'stopped';
  }
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
