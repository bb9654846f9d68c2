import type { SlotRef } from './ids.ts';

/** The states of a slot; the arrows between them stand in docs/state-machine.md. */
export type SlotState =
  | 'claimed'
  | 'sent'
  | 'charged'
  | 'declined'
  | 'indeterminate'
  | 'blocked'
  | 'misconfigured'
  | 'skipped'
  | 'in_review';

/** How a customer's charge ended. `indeterminate` means "not known yet", never "failed". */
export type Outcome =
  | 'charged'
  | 'declined'
  | 'indeterminate'
  | 'blocked'
  | 'skipped'
  | 'misconfigured';

export const OUTCOMES: readonly Outcome[] = [
  'charged',
  'declined',
  'indeterminate',
  'blocked',
  'skipped',
  'misconfigured',
];

export type OutcomeCounts = Readonly<Record<Outcome, number>>;

export const NO_OUTCOMES: OutcomeCounts = {
  charged: 0,
  declined: 0,
  indeterminate: 0,
  blocked: 0,
  skipped: 0,
  misconfigured: 0,
};

/** The arrows of the state machine, from → to, without the generation rules the database adds. */
export const SLOT_ARROWS: Readonly<Record<SlotState, readonly SlotState[]>> = {
  claimed: ['sent', 'misconfigured', 'blocked', 'indeterminate'],
  sent: ['charged', 'declined', 'indeterminate', 'blocked', 'misconfigured'],
  charged: [],
  declined: ['claimed', 'charged'],
  indeterminate: [
    'charged',
    'declined',
    'misconfigured',
    'blocked',
    'claimed',
    'sent',
    'in_review',
  ],
  in_review: ['charged', 'declined', 'misconfigured', 'claimed'],
  blocked: ['claimed', 'sent', 'charged'],
  misconfigured: ['claimed', 'charged'],
  skipped: ['claimed'],
};

/** Why a customer has nothing to be charged. */
export type SkipReason = 'nothing_due' | 'no_payment_method';

/** What claimSlot answers. `inDoubt`: an earlier outcome is unknown, so only reconcile may go on. */
export type ClaimAnswer =
  | { readonly kind: 'claimed'; readonly generation: number }
  | { readonly kind: 'resumed'; readonly generation: number }
  | { readonly kind: 'alreadyCharged' }
  | { readonly kind: 'declinedBefore'; readonly outcome: Outcome; readonly reason: string }
  | { readonly kind: 'inDoubt'; readonly generation: number; readonly reason: string }
  | { readonly kind: 'skipped'; readonly reason: SkipReason }
  /** only for who asks {@link ClaimOrder.unlessHeld}: the run is paused or stopped, nothing may be sent */
  | { readonly kind: 'held' };

export interface ClaimOrder extends SlotRef {
  /** the sweep asks: nobody ordered this customer, so a run that is held just now is only read */
  readonly unlessHeld?: boolean;
}

/** What came back for one physical send; recorded once, beside the attempt it answers. */
export interface AttemptAnswer {
  readonly attemptId: string;
  /** null when no HTTP status arrived */
  readonly httpStatus: number | null;
  readonly error: string | null;
  readonly stripeRequestId: string | null;
  /** true when Stripe said it was the saved reply of an earlier execution */
  readonly replayed: boolean;
  readonly durationMs: number;
  /** true when our own vault refused it, so that Stripe has not seen this send; absent means false */
  readonly neverReachedStripe?: boolean;
}

/** How a charge ended, as the charge and reconcile activities return it and record writes it. */
export type ChargeOutcome =
  | {
      readonly outcome: 'charged';
      readonly paymentIntentId: string;
      readonly chargeId: string;
      readonly amountMinor: number;
      readonly currency: string;
    }
  | {
      readonly outcome: 'declined';
      readonly paymentIntentId: string | null;
      readonly declinedChargeId: string | null;
      readonly reason: string;
      readonly advice: string;
    }
  | {
      readonly outcome: 'misconfigured';
      readonly reason: string;
      readonly advice: string;
      /** a wrong API key would fail every other customer too: the run pauses */
      readonly stopsRun: boolean;
    }
  | { readonly outcome: 'blocked'; readonly reason: string; readonly advice: string }
  | { readonly outcome: 'indeterminate'; readonly reason: string; readonly advice: string };

/** The vault's word for a used-up cap (docs/vault.md). */
export const CAP_EXCEEDED = 'spend_cap_exceeded';

/** Whether every other customer would end like this one, so that the run pauses itself: a refused API key, a used-up cap. */
export function stopsRun(
  result: ChargeOutcome,
): result is Extract<ChargeOutcome, { outcome: 'misconfigured' | 'blocked' }> {
  return result.outcome === 'blocked' || (result.outcome === 'misconfigured' && result.stopsRun);
}

export interface ChargeResult {
  readonly generation: number;
  readonly result: ChargeOutcome;
  /** the last answer, still to be written: record commits it together with the outcome */
  readonly answer: AttemptAnswer | null;
}

/** Why a look at Stripe left the outcome open. */
export type OpenBecause =
  /** Stripe is at work on it, or waits for the customer's bank or the customer */
  | 'stillProcessing'
  /** Stripe shows no trace of the send, which is not proof yet */
  | 'absentNotProven'
  | 'cannotTell';

/**
 * What reconcile found. `resumable`: the named generation's key may be sent, because it never was, or is
 * young enough to be safe, or because its predecessor is proven to have done nothing.
 */
export type ReconcileAnswer =
  | { readonly kind: 'settled'; readonly charge: ChargeResult }
  | {
      readonly kind: 'resumable';
      readonly generation: number;
      readonly because: 'neverSent' | 'sameKey' | 'absent';
    }
  | { readonly kind: 'unknown'; readonly reason: string; readonly because: OpenBecause };

/** What one customer's workflow returns: the outcome and why, never a list. */
export interface CustomerResult {
  readonly outcome: Outcome;
  readonly reason: string | null;
  readonly stopsRun: boolean;
}

export interface RerunOrder extends SlotRef {
  readonly requestId: string;
  readonly operator: string;
  readonly reason: string;
}

/** What an operator's rerun is answered. Only `accepted` may lead to a send. */
export type RerunAnswer =
  | 'accepted'
  | 'alreadyCharged'
  | 'inDoubt'
  | 'nothingDue'
  | 'unknownCustomer';
