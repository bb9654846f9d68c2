import type { Decline } from './fixtures.ts';

// Records are immutable: a change is a new record under the same id. Events keep the record of their moment for free.

interface BaseRecord {
  readonly id: string;
  /** Unix seconds on the virtual clock. */
  readonly created: number;
  readonly metadata: Readonly<Record<string, string>>;
}

type IntentStatus =
  | 'requires_payment_method'
  | 'requires_confirmation'
  | 'requires_action'
  | 'processing'
  | 'requires_capture'
  | 'succeeded'
  | 'canceled';

/** The request that caused something; its key is what `event.request.idempotency_key` shows. */
export interface Origin {
  readonly requestId: string | null;
  readonly idempotencyKey: string | null;
  readonly apiVersion: string;
}

/** What the clock will do to an intent: finish a `processing` charge, or confirm after a 500. */
type PendingStep =
  | { readonly kind: 'settle'; readonly atMs: number; readonly ends: 'succeeded' | Decline }
  | {
      readonly kind: 'lateConfirm';
      readonly atMs: number;
      readonly order: ConfirmOrder;
      readonly origin: Origin;
    };

/** How an intent is to be confirmed. */
export interface ConfirmOrder {
  readonly paymentMethod: string;
  readonly offSession: boolean;
  readonly errorOnRequiresAction: boolean;
  /** A fault's decline, whatever the payment method would do. */
  readonly forcedDecline: Decline | null;
}

export interface IntentRecord extends BaseRecord {
  readonly amount: number;
  readonly currency: string;
  readonly customer: string | null;
  readonly paymentMethod: string | null;
  readonly paymentMethodTypes: readonly string[];
  readonly automaticPaymentMethods: boolean;
  readonly status: IntentStatus;
  readonly description: string | null;
  readonly captureMethod: 'automatic' | 'automatic_async' | 'manual';
  readonly confirmationMethod: 'automatic' | 'manual';
  readonly setupFutureUsage: 'off_session' | 'on_session' | null;
  readonly receiptEmail: string | null;
  readonly statementDescriptor: string | null;
  readonly statementDescriptorSuffix: string | null;
  readonly latestCharge: string | null;
  readonly lastError: {
    readonly decline: Decline;
    readonly paymentMethod: string;
    readonly charge: string | null;
  } | null;
  readonly canceledAt: number | null;
  readonly cancellationReason: string | null;
  readonly pending: PendingStep | null;
  /** Keys of the POSTs that were executed on this intent, in order; for auditors, never for grouping. */
  readonly keys: readonly string[];
}

export interface ChargeRecord extends BaseRecord {
  readonly amount: number;
  readonly amountRefunded: number;
  readonly currency: string;
  readonly customer: string | null;
  readonly intent: string;
  readonly paymentMethod: string;
  readonly description: string | null;
  readonly receiptEmail: string | null;
  readonly captured: boolean;
  readonly status: 'succeeded' | 'pending' | 'failed';
  readonly decline: Decline | null;
}

export interface RefundRecord extends BaseRecord {
  readonly amount: number;
  readonly currency: string;
  readonly charge: string;
  readonly intent: string;
  readonly reason: string | null;
  readonly status: 'succeeded';
}

export interface CustomerRecord extends BaseRecord {
  readonly email: string | null;
  readonly name: string | null;
  readonly description: string | null;
  readonly defaultPaymentMethod: string | null;
}

export interface EventRecord {
  readonly id: string;
  readonly created: number;
  readonly type: string;
  readonly object: Snapshot;
  readonly origin: Origin;
  /** False until an endpoint has answered 2xx. */
  readonly delivered: boolean;
}

/** An object as it was at one moment. */
export type Snapshot =
  | { readonly of: 'payment_intent'; readonly record: IntentRecord }
  | { readonly of: 'charge'; readonly record: ChargeRecord }
  | { readonly of: 'refund'; readonly record: RefundRecord }
  | { readonly of: 'customer'; readonly record: CustomerRecord };
