import type { Kysely } from 'kysely';
import type { DB } from '../db/schema.ts';
import type { PaymentGateway } from '../payments/gateway.ts';
import type { VaultAccess } from '../payments/vault-access.ts';
import type { RunRef, SlotRef } from '../domain/ids.ts';
import type { CrashPoint } from './crash-points.ts';

/** What the activities need of the world. The worker builds it; tests replace single parts. */
export interface ActivityDeps {
  readonly db: Kysely<DB>;
  /** with a vault that of no run: {@link depsOf} puts the run's own in */
  readonly gateway: PaymentGateway;
  /** who alone has the Stripe key and caps what a run spends; null: this process has the key itself */
  readonly vault: VaultAccess | null;
  /** part of every key: which Stripe account and mode this process bills */
  readonly account: string;
  readonly mode: 'test' | 'live';
  /** who sends, as the attempts record it */
  readonly worker: string;
  /** waits for this process's share of Stripe's rate */
  readonly pace: () => Promise<void>;
  /** pauses between the settle rounds of a run, in milliseconds */
  readonly reconcilePausesMs: readonly number[];
  /** answers of the HTTP layer that are kept for repeats; removes at most so many whose time is over */
  readonly storedResponses: { purge(limit: number): Promise<number> };
  /** what must pass after a send, and between two looks, before "no effect" counts as proof; milliseconds */
  readonly absenceQuietMs: number;
  /** a no-op outside crash tests, which stop one customer's charge there; null where no slot is concerned */
  readonly crashPoint: (point: CrashPoint, slot: SlotRef | null) => Promise<void>;
  /**
   * Throws when the database is no longer what this worker was started for: exchanged behind its
   * address, or adopted for another account. Asked before anything new is planned, listed or ordered.
   */
  readonly requireEnvironment: () => Promise<void>;
}

/** The same world for what is about to be asked or sent for one run: with a vault, under the key of that run. */
export function depsOf(deps: ActivityDeps, run: RunRef): ActivityDeps {
  return deps.vault === null ? deps : { ...deps, gateway: deps.vault.gatewayOf(run) };
}
