import { hostname } from 'node:os';
import type { Killable } from './killable.ts';
import { pause } from './luck.ts';

const RESTART_PAUSE_MS = 100;
const WATCH_MS = 50;

/** A process that is started again whenever it ends. */
export class Kept {
  readonly process: Killable;
  /** is being frozen or restarted gently: nobody else touches it */
  busy = false;
  ready = false;
  /** ends that nobody ordered: it lost its servers, left, and was started again */
  unasked = 0;
  /** how long each start took until it could be used */
  readonly startsMs: number[] = [];
  #held = false;
  #ending = false;
  #asked = false;
  readonly #signal: AbortSignal;

  constructor(process: Killable, signal: AbortSignal) {
    this.process = process;
    this.#signal = signal;
  }

  /** Keeps it running until the signal; a start that fails (PostgreSQL is away) is tried again. */
  async keep(): Promise<void> {
    while (!this.#signal.aborted) {
      if (this.#held || this.#ending) {
        await pause(WATCH_MS, this.#signal);
        continue;
      }
      try {
        const began = performance.now();
        await this.process.start();
        this.startsMs.push(Math.round(performance.now() - began));
        this.ready = true;
        while (this.process.running && !this.#signal.aborted) await pause(WATCH_MS, this.#signal);
      } catch {
        // It is counted below, and tried again.
      }
      if (!this.#asked && !this.#signal.aborted) this.unasked += 1;
      this.#asked = false;
      this.ready = false;
      await pause(RESTART_PAUSE_MS, this.#signal);
    }
  }

  name(): string {
    return `${this.process.pid}@${hostname()}`;
  }

  async end(signal: NodeJS.Signals): Promise<void> {
    this.#ending = true;
    this.#asked = true;
    this.ready = false;
    try {
      await this.process.end(signal);
    } finally {
      this.#ending = false;
    }
  }

  hold(held: boolean): void {
    this.#held = held;
  }
}
