import type { RunRef } from '../domain/ids.ts';

/** How far a witness has been heard; total is null while it is not known. */
interface AuditProgress {
  readonly witness: 'database' | 'provider' | 'temporal';
  readonly done: number;
  readonly total: number | null;
}

export type OnProgress = (progress: AuditProgress) => void;

/** What to read at the provider. Account and mode are those of the database, when it has been billed. */
export interface ProviderQuery {
  readonly run: RunRef;
  readonly account: string | null;
  readonly livemode: boolean | null;
  /** when the run was planned; null when it never was */
  readonly plannedAt: Date | null;
}

export interface ProviderCharge {
  readonly chargeId: string | null;
  readonly amountMinor: number;
}

/** One PaymentIntent of the period, found by its metadata and never by our idempotency key. */
export interface ProviderIntent {
  readonly paymentIntentId: string;
  /** our customer, as the metadata say; null when they do not */
  readonly customerId: string | null;
  readonly stripeCustomerId: string | null;
  readonly currency: string;
  readonly status: string;
  readonly succeeded: readonly ProviderCharge[];
  /** money may still move */
  readonly pending: boolean;
  /** a confirm reached the bank at least once */
  readonly confirmed: boolean;
  /** the key the metadata name */
  readonly metadataKey: string | null;
}

/** One physical request with an idempotency key, as the provider's own log has it. */
export interface ProviderSend {
  readonly idempotencyKey: string;
  readonly attemptId: string | null;
  readonly endpoint: string;
  /** null: the provider never read the body */
  readonly bodyHash: string | null;
}

/** Who can say what was charged. A read that cannot be finished throws {@link WitnessUnreadable}. */
export interface ProviderWitness {
  readonly source: string;
  intents(query: ProviderQuery): AsyncIterable<ProviderIntent>;
  /** absent where the provider has no request log to show */
  readonly sends?: (query: ProviderQuery) => AsyncIterable<ProviderSend>;
}

export interface HistoryCharge {
  readonly paymentIntentId: string;
  readonly chargeId: string;
  readonly amountMinor: number;
  readonly currency: string;
}

/** What Temporal remembers of one customer, over all Temporal runs of the workflow's ID. */
export interface CustomerHistory {
  readonly customerId: string;
  readonly temporalRuns: number;
  /** successes that the charge and reconcile activities answered, each charge once */
  readonly charges: readonly HistoryCharge[];
  /** the outcome the latest Temporal run returned; null when it has not completed */
  readonly returned: string | null;
  readonly open: boolean;
  /** a Temporal run that is known to have been is no longer there */
  readonly partial: boolean;
}

/** Who can say what was done. Customers whose history is gone are not yielded. */
export interface TemporalWitness {
  readonly source: string;
  histories(run: RunRef, customerIds: Iterable<string>): AsyncIterable<CustomerHistory>;
}

/** A witness that could not be heard to the end: the verdict becomes unknown. */
export class WitnessUnreadable extends Error {
  override readonly name = 'WitnessUnreadable';
}

/** The text of any error, for a report. */
export function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { cause } = error;
  // fetch says only "fetch failed"; why stands in its cause.
  const why = cause instanceof Error && cause.message !== '' ? `: ${cause.message}` : '';
  const text = error.message === '' ? error.name : error.message;
  return `${text}${why}`;
}
