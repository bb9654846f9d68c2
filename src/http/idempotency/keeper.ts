import { setTimeout as sleep } from 'node:timers/promises';
import type { Settings } from './options.ts';
import type { Hold, StoredResponse } from './store.ts';

/** A key that this process answers for. */
export interface Held {
  readonly hold: Hold;
  readonly lost: AbortController;
  renewedAtMs: number;
}

/** An answer of a key that is held until it is written, or a key to give back. */
type Unwritten =
  | { readonly kind: 'answer'; readonly held: Held; readonly response: StoredResponse }
  | { readonly kind: 'toGiveBack'; readonly hold: Omit<Hold, 'fence'> };

/** Pauses between tries to write what a store that was away did not take. */
const RETRY_MS = 1_000;
/** What the end of the process waits for a store that is away. */
const LAST_TRIES_MS = 3_000;
/** Keys to give back that wait for the store; beyond it their leases end them. Answers are never left out. */
const MAX_TO_GIVE_BACK = 10_000;

/**
 * Keeps the leases of this process's keys, and what could not be written yet. As long as an answer waits here its key
 * is held, so its handler does not run again.
 */
export class Keeper {
  readonly #settings: Settings;
  readonly #held = new Set<Held>();
  readonly #unwritten = new Set<Unwritten>();
  #timer: NodeJS.Timeout | null = null;
  #ticking: Promise<void> | null = null;
  #closing = false;

  constructor(settings: Settings) {
    this.#settings = settings;
  }

  /** Renews the key's lease from now on, until `drop`. */
  keep(hold: Hold): Held {
    const held = { hold, lost: new AbortController(), renewedAtMs: performance.now() };
    this.#held.add(held);
    this.#wake();
    return held;
  }

  drop(held: Held): void {
    this.#held.delete(held);
  }

  /** Stores the answer; `later` when the store is away: then it is tried again until it is written or the key is lost. */
  async complete(held: Held, response: StoredResponse): Promise<'stored' | 'lost' | 'later'> {
    const { store, retentionMs, onError } = this.#settings;
    try {
      const written = await store.complete(held.hold, response, retentionMs);
      this.drop(held);
      return written;
    } catch (error) {
      onError(error);
      this.#writeLater({ kind: 'answer', held, response });
      return 'later';
    }
  }

  /**
   * Gives a key back that is not kept here, or no longer: now or when the store can be reached. Nothing may have run
   * under it.
   */
  async abandon(hold: Omit<Hold, 'fence'>): Promise<void> {
    try {
      await this.#settings.store.abandon(hold);
    } catch (error) {
      this.#settings.onError(error);
      this.#writeLater({ kind: 'toGiveBack', hold });
    }
  }

  /** Ends the key's lease: the same request may run again from now on. It may when the lease runs out, at the latest. */
  async letGo(hold: Hold): Promise<void> {
    try {
      await this.#settings.store.renew([hold], 0);
    } catch (error) {
      this.#settings.onError(error);
    }
  }

  /** A last try for what is not written; then the leases run out. */
  async close(): Promise<void> {
    this.#closing = true;
    if (this.#timer !== null) clearInterval(this.#timer);
    await this.#ticking;
    const until = performance.now() + LAST_TRIES_MS;
    while (this.#unwritten.size > 0 && performance.now() < until) {
      await this.#writeAll();
      if (this.#unwritten.size > 0) await sleep(100);
    }
  }

  #writeLater(unwritten: Unwritten): void {
    // While the store is away nothing new is claimed: there are no more answers than handlers that were at work.
    if (unwritten.kind === 'answer' || this.#unwritten.size < MAX_TO_GIVE_BACK)
      this.#unwritten.add(unwritten);
    this.#wake();
  }

  #wake(): void {
    if (this.#timer !== null || this.#closing) return;
    const every = Math.min(RETRY_MS, this.#settings.leaseMs / 4);
    this.#timer = setInterval(() => {
      this.#ticking ??= this.#tick().finally(() => (this.#ticking = null));
    }, every);
    this.#timer.unref();
  }

  async #tick(): Promise<void> {
    if (this.#held.size === 0 && this.#unwritten.size === 0) {
      if (this.#timer !== null) clearInterval(this.#timer);
      this.#timer = null;
      return;
    }
    await this.#renew();
    await this.#writeAll();
  }

  async #renew(): Promise<void> {
    const { store, leaseMs, onError } = this.#settings;
    const now = performance.now();
    const due = [...this.#held].filter((held) => now - held.renewedAtMs >= leaseMs / 4);
    if (due.length === 0) return;
    try {
      const holds = due.map(({ hold }) => hold);
      const lost = new Set(await store.renew(holds, leaseMs));
      for (const held of due) {
        held.renewedAtMs = now;
        // An answer may have been stored in between: then it was not lost.
        if (!lost.has(held.hold.holder) || !this.#held.has(held)) continue;
        this.drop(held);
        held.lost.abort(new Error('the Idempotency-Key of this request has another holder now'));
      }
    } catch (error) {
      onError(error);
    }
  }

  async #writeAll(): Promise<void> {
    for (const unwritten of this.#unwritten) {
      try {
        await this.#write(unwritten);
        this.#unwritten.delete(unwritten);
        if (unwritten.kind === 'answer') this.drop(unwritten.held);
      } catch (error) {
        this.#settings.onError(error);
        // The others would most likely fail like it. If it is the only one, it must not stand in their way.
        this.#unwritten.delete(unwritten);
        this.#unwritten.add(unwritten);
        return;
      }
    }
  }

  async #write(unwritten: Unwritten): Promise<void> {
    const { store, retentionMs } = this.#settings;
    if (unwritten.kind === 'toGiveBack') return store.abandon(unwritten.hold);
    await store.complete(unwritten.held.hold, unwritten.response, retentionMs);
  }
}
