import { setTimeout as sleep } from 'node:timers/promises';
import type { Db } from '../db/database.ts';
import { finishForward, type Effect, type FinishOrder } from '../db/vault-ledger.ts';
import type { OnVaultEvent } from './events.ts';

/** The client has Stripe's answer to come: it waits this long for the database, no longer. */
const MAX_WAIT_MS = 2_000;
/** Pauses between tries in the background, some 30 s in all; after that the sweep asks Stripe. */
const PAUSES_MS = [200, 500, 1_000, 2_000, 4_000, 8_000, 15_000];

/** Writes answers down, again after a failure, without letting the client wait for the database for long. */
export class Finisher {
  readonly #db: Db;
  readonly #onEvent: OnVaultEvent;
  readonly #running = new Set<Promise<Effect | null>>();

  constructor(db: Db, onEvent: OnVaultEvent) {
    this.#db = db;
    this.#onEvent = onEvent;
  }

  /** The effect, or null when the database has not taken the answer yet: it is tried again behind the client's back. */
  async finish(order: FinishOrder): Promise<Effect | null> {
    const work = this.#work(order);
    this.#running.add(work);
    void work.finally(() => this.#running.delete(work));
    const late = Promise.withResolvers<null>();
    const patience = setTimeout(() => late.resolve(null), MAX_WAIT_MS);
    try {
      return await Promise.race([work, late.promise]);
    } finally {
      clearTimeout(patience);
    }
  }

  /** Waits for what is under way. */
  async drain(): Promise<void> {
    while (this.#running.size > 0) await Promise.all(this.#running);
  }

  async #work(order: FinishOrder): Promise<Effect | null> {
    for (const pauseMs of [...PAUSES_MS, null]) {
      try {
        return await finishForward(this.#db, order);
      } catch (error) {
        this.#onEvent({ kind: 'fault', where: 'finish', message: faultText(error) });
        // It must not keep a process alive that has ended its drain.
        if (pauseMs !== null) await sleep(pauseMs, null, { ref: false });
      }
    }
    return null;
  }
}

/** What broke, for a log: nothing of a request's secrets is ever given to the database. */
export function faultText(error: unknown): string {
  if (!(error instanceof Error)) return 'unknown';
  const code = 'code' in error && typeof error.code === 'string' ? `${error.code}: ` : '';
  return `${code}${error.message}`.slice(0, 300);
}
