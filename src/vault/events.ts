import type { Effect, SpendKind } from '../db/vault-ledger.ts';
import type { RefusalCode } from './refusal.ts';

/** Who asked for what, as far as it is known when the event happens. No secret and no body, ever. */
export interface RequestFacts {
  /** id of the row in vault_requests; null when the request came to none */
  readonly requestId: string | null;
  /** the public part of the key; of an unknown key, the part as sent */
  readonly keyId: string | null;
  readonly method: string;
  /** null when the target was not fit to be shown */
  readonly path: string | null;
  readonly idempotencyKey: string | null;
  readonly attemptId: string | null;
  readonly namespace: string | null;
  readonly period: string | null;
  readonly customerId: string | null;
  readonly amountMinor: number | null;
  readonly currency: string | null;
}

/** What is used of one cap after a reservation; minor units. */
export interface CapUse {
  readonly keyId: string;
  readonly currency: string;
  readonly amountMinor: number;
  readonly usedMinor: number;
  readonly capMinor: number;
  readonly expectedMinor: number | null;
}

/**
 * What happens in the proxy, for log, metrics and alerts. Every request gives either one `refused`, or one
 * `forwarded` and then one `answered`. With several vaults each tells of its own requests only.
 */
export type VaultEvent =
  /** refused by the vault; cap is there when the cap said no */
  | {
      readonly kind: 'refused';
      readonly code: RefusalCode;
      readonly status: number;
      readonly request: RequestFacts;
      readonly cap: CapUse | null;
    }
  /** its audit row is committed and it leaves now */
  | { readonly kind: 'forwarded'; readonly spendKind: SpendKind; readonly request: RequestFacts }
  | {
      readonly kind: 'answered';
      readonly spendKind: SpendKind;
      readonly request: RequestFacts;
      /** of Stripe; null when no answer came, error then says why */
      readonly status: number | null;
      readonly error: string | null;
      readonly stripeRequestId: string | null;
      readonly replayed: boolean;
      readonly durationMs: number;
      /** null when the database did not take the answer; the sweep finds the reservation then */
      readonly effect: Effect | null;
    }
  /** this reservation took the use across a line: 80 % of the cap, or what the plan expects */
  | { readonly kind: 'cap_crossed'; readonly line: '80_percent' | 'expected'; readonly cap: CapUse }
  /** Stripe answered with another sum, currency, customer or object than was asked for */
  | { readonly kind: 'reply_mismatch'; readonly mismatch: string; readonly request: RequestFacts }
  /** something of ours broke; message is fit for a log */
  | { readonly kind: 'fault'; readonly where: string; readonly message: string };

/** Called in line; must not throw and must not block. */
export type OnVaultEvent = (event: VaultEvent) => void;

/** The lines that one reservation crossed; each is crossed once, since uses of a window follow each other. Pure. */
export function crossedLines(cap: CapUse): ('80_percent' | 'expected')[] {
  const before = cap.usedMinor - cap.amountMinor;
  const lines: ('80_percent' | 'expected')[] = [];
  const warn = Math.ceil(cap.capMinor * 0.8);
  if (before < warn && cap.usedMinor >= warn) lines.push('80_percent');
  const { expectedMinor } = cap;
  if (expectedMinor !== null && before <= expectedMinor && cap.usedMinor > expectedMinor)
    lines.push('expected');
  return lines;
}
