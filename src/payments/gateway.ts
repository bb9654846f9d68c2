import type { AttemptAnswer } from '../domain/charge.ts';

/** What we read of a PaymentIntent; everything else Stripe sends stays at Stripe. */
export interface PaymentIntentFacts {
  readonly id: string;
  readonly status: string;
  readonly amountMinor: number;
  readonly currency: string;
  readonly customer: string | null;
  readonly metadata: Readonly<Record<string, string>>;
  readonly latestCharge: string | null;
  readonly lastError: {
    readonly code: string | null;
    readonly declineCode: string | null;
    readonly adviceCode: string | null;
    readonly chargeId: string | null;
  } | null;
}

/** One POST as it must leave: these bytes, this key, this version, under this attempt. */
export interface FrozenSend {
  readonly idempotencyKey: string;
  readonly body: string;
  readonly apiVersion: string;
  /** id of the attempt, committed before the call; the wire's X-Attempt-Id */
  readonly attemptId: string;
  /**
   * The SDK resends once on a closed connection. The transport gives that send an id of its own and
   * awaits this before the bytes leave, so that no send is unrecorded.
   */
  readonly onResend: (resend: { attemptId: string; lost: AttemptAnswer }) => Promise<void>;
}

/** A refusal in Stripe's own terms, as the classifier reads it. */
export interface Refusal {
  readonly status: number;
  readonly type: string | null;
  readonly code: string | null;
  readonly declineCode: string | null;
  readonly adviceCode: string | null;
  readonly message: string | null;
  /** `Stripe-Should-Retry`: true, false, or null when absent */
  readonly shouldRetry: boolean | null;
  readonly retryAfterMs: number | null;
  readonly paymentIntent: PaymentIntentFacts | null;
}

/** The answer to one POST. `lost`: no usable answer, the send may have taken effect. */
export type SendReply =
  | { readonly kind: 'intent'; readonly intent: PaymentIntentFacts; readonly answer: AttemptAnswer }
  | { readonly kind: 'refused'; readonly refusal: Refusal; readonly answer: AttemptAnswer }
  | { readonly kind: 'lost'; readonly reason: string; readonly answer: AttemptAnswer };

interface ListQuery {
  readonly customer: string;
  /** lower bound of `created`, seconds since the epoch */
  readonly createdGte: number;
}

export interface EventQuery {
  readonly types: readonly string[];
  /** bounds of `created`, seconds since the epoch */
  readonly createdGte: number;
  readonly createdLte: number;
}

/** What we read of an event: which request caused it, and which PaymentIntent it is about. */
export interface ProviderEvent {
  readonly id: string;
  readonly type: string;
  readonly idempotencyKey: string | null;
  readonly paymentIntentId: string | null;
}

/** What we read of a charge; a declined confirm leaves one with status `failed`. */
export interface ChargeSeen {
  readonly id: string;
  readonly status: string;
  readonly amountMinor: number;
  readonly currency: string;
  readonly customer: string | null;
  readonly paymentIntentId: string | null;
  /** seconds since the epoch, by Stripe's clock */
  readonly created: number;
  readonly failureCode: string | null;
  readonly amountRefundedMinor: number;
}

/** A look-up that did not succeed says nothing about the thing looked up. Never read as "absent". */
export class LookupFailed extends Error {
  override readonly name = 'LookupFailed';
  readonly status: number | null;

  constructor(message: string, details: { status: number | null; cause: unknown }) {
    super(message, { cause: details.cause });
    this.status = details.status;
  }
}

/** A list that was read as far as it may be and goes on: what was looked for is not among what was read. */
export class ListTooLong extends LookupFailed {}

/** What the engine needs of a payment provider. Sends answer with a union; look-ups throw {@link LookupFailed}. */
export interface PaymentGateway {
  /** The API version new requests are frozen with; later attempts send the stored one. */
  readonly apiVersion: string;
  account(): Promise<{ id: string }>;
  createPaymentIntent(send: FrozenSend): Promise<SendReply>;
  confirmPaymentIntent(paymentIntentId: string, send: FrozenSend): Promise<SendReply>;
  retrievePaymentIntent(paymentIntentId: string): Promise<PaymentIntentFacts>;
  /** Every PaymentIntent of the customer since the bound, all pages. List, never Search: Search lags. */
  listPaymentIntents(query: ListQuery): Promise<readonly PaymentIntentFacts[]>;
  /** Every charge made for an intent, successes and failures, all pages. */
  listChargesOf(paymentIntentId: string): Promise<readonly ChargeSeen[]>;
  retrieveCharge(chargeId: string): Promise<ChargeSeen>;
  /** Events between the bounds, all pages; Stripe keeps them for 30 days (docs.stripe.com/api/events). */
  listEvents(query: EventQuery): Promise<readonly ProviderEvent[]>;
}
