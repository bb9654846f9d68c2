import type { VirtualClock } from './clock.ts';
import { ApiError } from './errors.ts';
import { confirmIntent, settleIntent } from './machine.ts';
import type { IntentRecord, Origin } from './records.ts';
import type { Store, Tenant } from './store.ts';

interface Due {
  readonly tenant: Tenant;
  readonly intentId: string;
  readonly atMs: number;
}

/** Steps that happen by themselves: bank debits that end, charges that succeed after their 500. */
export class Agenda {
  readonly #store: Store;
  readonly #clock: VirtualClock;
  readonly #apiVersion: string;
  #due: Due[] = [];
  #earliestMs = Infinity;

  constructor(store: Store, clock: VirtualClock, apiVersion: string) {
    this.#store = store;
    this.#clock = clock;
    this.#apiVersion = apiVersion;
    store.onIntent((tenant, intent) => this.#note(tenant, intent));
  }

  /** Virtual milliseconds until the next step, or undefined when nothing waits. */
  nextInMs(): number | undefined {
    if (this.#due.length === 0) return undefined;
    return Math.max(0, this.#earliestMs - this.#clock.nowMs());
  }

  /** Takes every step whose time has come. True when there were any; the caller commits. */
  run(): boolean {
    const now = this.#clock.nowMs();
    if (now < this.#earliestMs) return false;
    const ready = this.#due.filter((due) => due.atMs <= now).sort((a, b) => a.atMs - b.atMs);
    this.#due = this.#due.filter((due) => due.atMs > now);
    this.#earliestMs = this.#due.reduce((least, due) => Math.min(least, due.atMs), Infinity);
    for (const due of ready) this.#step(due);
    return ready.length > 0;
  }

  clear(): void {
    this.#due = [];
    this.#earliestMs = Infinity;
  }

  #note(tenant: Tenant, intent: IntentRecord): void {
    if (intent.pending === null) return;
    this.#due.push({ tenant, intentId: intent.id, atMs: intent.pending.atMs });
    this.#earliestMs = Math.min(this.#earliestMs, intent.pending.atMs);
  }

  #step(due: Due): void {
    const intent = due.tenant.intents.get(due.intentId);
    // The intent may have moved on by another request: then its step is void.
    if (intent?.pending?.atMs !== due.atMs) return;
    const { pending } = intent;
    const bySystem: Origin = {
      requestId: null,
      idempotencyKey: null,
      apiVersion: this.#apiVersion,
    };
    const stage = { store: this.#store, clock: this.#clock, tenant: due.tenant };
    if (pending.kind === 'settle') {
      settleIntent({ ...stage, origin: bySystem }, intent, pending.ends);
      return;
    }
    try {
      confirmIntent(
        { ...stage, origin: pending.origin },
        { ...intent, pending: null },
        pending.order,
      );
    } catch (error) {
      // A decline has been recorded and told by event; there is no reply to put it in.
      if (!(error instanceof ApiError)) throw error;
    }
  }
}
