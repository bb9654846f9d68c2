// Time of the simulation: a queue of events, and everything in the process that tells the time or draws
// lots. Only test/simulation/main.ts and its workers install it; they are processes of their own.
import { AsyncResource } from 'node:async_hooks';
import crypto from 'node:crypto';
import { syncBuiltinESMExports } from 'node:module';
import timersPromises from 'node:timers/promises';

interface Event {
  readonly atMs: number;
  readonly order: number;
  readonly run: () => void;
  cancelled: boolean;
}

/** Turns of the event loop an awaited statement may take; more means that something left the simulation. */
const MAX_TURNS = 10_000;
/** Events of one world; a hundred times what a busy one has. */
const MAX_EVENTS = 1_000_000;
const realSetImmediate = setImmediate;
const realNow = performance.now.bind(performance);

/** Wall-clock milliseconds, for progress and budgets only. */
export function wallMs(): number {
  return realNow();
}

/** Virtual time: it moves from event to event, and nothing else happens meanwhile. */
export class VirtualTime {
  nowMs: number;
  /** calls under way that take no virtual time (a statement in the database) */
  busy = 0;
  readonly #events: Event[] = [];
  readonly #waiting = new Set<{ holds: () => boolean; wake: () => void }>();
  #order = 0;
  #ids = 0;
  #taken = 0;

  constructor(startMs: number) {
    this.nowMs = startMs;
  }

  /** Runs once, that many milliseconds from now. */
  after(ms: number, run: () => void): { cancel(): void } {
    this.#order += 1;
    const event: Event = {
      atMs: this.nowMs + Math.max(0, ms),
      order: this.#order,
      run,
      cancelled: false,
    };
    this.#push(event);
    return {
      cancel: () => {
        event.cancelled = true;
      },
    };
  }

  sleep(ms: number): Promise<void> {
    return new Promise((resolve) => {
      this.after(ms, resolve);
    });
  }

  /** Resolves as soon as the condition holds, looked at after every event. */
  until(holds: () => boolean): Promise<void> {
    if (holds()) return Promise.resolve();
    return new Promise((wake) => {
      this.#waiting.add({ holds, wake });
    });
  }

  /** The next id in place of a random one: unique in this world, the same in every repetition. */
  nextId(): `${string}-${string}-${string}-${string}-${string}` {
    this.#ids += 1;
    const hex = crypto.createHash('sha256').update(`id ${this.#ids}`).digest('hex');
    return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
  }

  /** Takes events in their order until the time has come, or none is left. */
  async runUntil(untilMs: number): Promise<void> {
    await this.#drain();
    for (;;) {
      const next = this.#events[0];
      if (next === undefined || next.atMs > untilMs) break;
      this.#pop();
      if (next.cancelled) continue;
      this.#taken += 1;
      if (this.#taken > MAX_EVENTS) throw new Error('the world goes round in circles');
      this.nowMs = Math.max(this.nowMs, next.atMs);
      next.run();
      await this.#drain();
    }
    this.nowMs = Math.max(this.nowMs, untilMs);
  }

  /** Lets everything that was woken run until it waits again. */
  async #drain(): Promise<void> {
    for (let turn = 0; turn < MAX_TURNS; turn += 1) {
      await new Promise<void>((resolve) => {
        realSetImmediate(resolve);
      });
      if (this.busy > 0) continue;
      if (!this.#wakeWaiting()) return;
    }
    throw new Error('the simulation does not come to rest: a call waits for something real');
  }

  #wakeWaiting(): boolean {
    let woken = false;
    for (const one of this.#waiting) {
      if (!one.holds()) continue;
      this.#waiting.delete(one);
      one.wake();
      woken = true;
    }
    return woken;
  }

  #push(event: Event): void {
    const heap = this.#events;
    let at = heap.push(event) - 1;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      const above = heap[parent];
      if (above === undefined || !isBefore(event, above)) break;
      heap[at] = above;
      at = parent;
    }
    heap[at] = event;
  }

  #pop(): void {
    const heap = this.#events;
    const last = heap.pop();
    if (last === undefined || heap.length === 0) return;
    let at = 0;
    for (;;) {
      const left = heap[2 * at + 1];
      const right = heap[2 * at + 2];
      const isRight = right !== undefined && left !== undefined && isBefore(right, left);
      const least = isRight ? right : left;
      if (least === undefined || !isBefore(least, last)) break;
      heap[at] = least;
      at = isRight ? 2 * at + 2 : 2 * at + 1;
    }
    heap[at] = last;
  }
}

function isBefore(a: Event, b: Event): boolean {
  return a.atMs < b.atMs || (a.atMs === b.atMs && a.order < b.order);
}

let current: VirtualTime | null = null;

/** From here on the process lives in this time. The database takes its now() from Date.now, too. */
export function useTime(time: VirtualTime): void {
  current = time;
}

/** Replaces the clocks, timers and lots of this process. Call once, before anything of src is loaded. */
export function installVirtualTime(): void {
  const real = {
    dateNow: Date.now.bind(Date),
    uuid: crypto.randomUUID.bind(crypto),
    setTimeout: globalThis.setTimeout,
    clearTimeout: globalThis.clearTimeout,
  };
  Date.now = () => (current === null ? real.dateNow() : Math.floor(current.nowMs));
  performance.now = () => (current === null ? realNow() : current.nowMs);
  // Nothing of ours draws lots; a library's jitter is then the same in every repetition.
  Math.random = () => 0.5;
  const uuid: typeof crypto.randomUUID = (options) =>
    current === null ? real.uuid(options) : current.nextId();
  const later = (run: (...args: unknown[]) => void, ms = 0, ...args: unknown[]) => {
    if (current === null) return real.setTimeout(run, ms, ...args);
    const bound = AsyncResource.bind(() => run(...args));
    return current.after(ms, bound);
  };
  const clear = (timer: unknown) => {
    if (isVirtual(timer)) timer.cancel();
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the rest is Node's own
    else real.clearTimeout(timer as NodeJS.Timeout);
  };
  const sleep = (ms = 0, value?: unknown) =>
    current === null
      ? new Promise((resolve) => {
          real.setTimeout(resolve, ms, value);
        })
      : current.sleep(ms).then(() => value);
  Object.assign(globalThis, {
    setTimeout: later,
    clearTimeout: clear,
    // Heartbeats only: a killed activity would leave its own behind for ever.
    setInterval: () => 0,
    clearInterval: () => {},
  });
  Object.assign(crypto, { randomUUID: uuid });
  Object.assign(timersPromises, { setTimeout: sleep });
  syncBuiltinESMExports();
}

function isVirtual(timer: unknown): timer is { cancel(): void } {
  return typeof timer === 'object' && timer !== null && 'cancel' in timer;
}

/** A number in [0, 1) that depends on the seed and the place alone, so that taking one fault away moves no other. */
export function lot(seed: string): number {
  let hash = 1_779_033_703 ^ seed.length;
  for (let i = 0; i < seed.length; i += 1) {
    hash = Math.imul(hash ^ seed.charCodeAt(i), 3_432_918_353);
    hash = (hash << 13) | (hash >>> 19);
  }
  hash = Math.imul(hash ^ (hash >>> 16), 2_246_822_507);
  hash = Math.imul(hash ^ (hash >>> 13), 3_266_489_909);
  return ((hash ^ (hash >>> 16)) >>> 0) / 4_294_967_296;
}
