import type { ChargeOutcome } from '../domain/charge.ts';
import type { ChargeFacts } from '../db/sends.ts';
import { declineAdvice } from '../payments/classify.ts';
import { METADATA } from '../domain/metadata.ts';
import type { PaymentIntentFacts } from '../payments/gateway.ts';

/** What a PaymentIntent, as Stripe shows it now, says about the current generation of its slot. */
export type IntentReading =
  | { readonly kind: 'settled'; readonly outcome: ChargeOutcome }
  /** the confirm of this generation has not taken effect: its key may be sent (again) */
  | { readonly kind: 'confirmNotDone' }
  /** this generation's confirm may or may not have taken effect: only its own key can tell */
  | { readonly kind: 'ambiguous' };

/** Whether Stripe has answered that it carried out this generation's confirm, also by a saved reply. */
export interface ConfirmKnown {
  readonly tookEffect: boolean;
}

/** Pure: a PaymentIntent's status → what it means. An intent succeeds at most once, so `succeeded` is final. */
export function readIntent(
  facts: ChargeFacts,
  intent: PaymentIntentFacts,
  confirm: ConfirmKnown = { tookEffect: false },
): IntentReading {
  const mismatch = mismatchOf(facts, intent);
  if (mismatch !== null) return settled(indeterminate(mismatch));
  switch (intent.status) {
    case 'succeeded':
      return settled({
        outcome: 'charged',
        paymentIntentId: intent.id,
        chargeId: intent.latestCharge ?? intent.id,
        amountMinor: intent.amountMinor,
        currency: intent.currency,
      });
    case 'requires_payment_method':
      return readRefusedIntent(facts, intent, confirm);
    case 'requires_confirmation':
      return { kind: 'confirmNotDone' };
    case 'canceled':
      return settled({
        outcome: 'misconfigured',
        reason: 'payment_intent_canceled',
        advice:
          'somebody canceled the PaymentIntent at Stripe; decide by hand what the customer owes',
        stopsRun: false,
      });
    // processing, requires_action, requires_capture: not final, and not ours to hurry.
    default:
      return settled(indeterminate(intent.status));
  }
}

/**
 * Back to requires_payment_method: declined. In a later generation the intent also looks like this before
 * our confirm, so only a charge we have not seen yet proves that this one was declined, or Stripe's own
 * word that it carried the confirm out: a bank debit is answered "processing" for ever under its key.
 */
function readRefusedIntent(
  facts: ChargeFacts,
  intent: PaymentIntentFacts,
  confirm: ConfirmKnown,
): IntentReading {
  const { lastError } = intent;
  const declinedCharge = lastError?.chargeId ?? intent.latestCharge;
  if (facts.generation > 1 && !confirm.tookEffect) {
    const { earlierCharges } = facts;
    // An earlier answer that named no charge may have been about this one.
    const isOld = earlierCharges.includes(declinedCharge) || earlierCharges.includes(null);
    const isNew = declinedCharge !== null && !isOld;
    if (!isNew)
      return facts.confirm.sentBefore ? { kind: 'ambiguous' } : { kind: 'confirmNotDone' };
  }
  if (lastError === null) return { kind: 'ambiguous' };
  const reason = lastError.declineCode ?? lastError.code ?? 'card_declined';
  // Same card and amount were used just before: the other payment may be the one we look for.
  if (reason === 'duplicate_transaction') return settled(indeterminate(reason));
  return settled({
    outcome: 'declined',
    paymentIntentId: intent.id,
    declinedChargeId: declinedCharge,
    reason,
    advice: declineAdvice(lastError),
  });
}

/** Why this PaymentIntent is not the one we asked for (swapped replies, wrong host), or null. */
export function mismatchOf(facts: ChargeFacts, intent: PaymentIntentFacts): string | null {
  const { slot } = facts;
  const marked = (name: keyof typeof METADATA, value: string) =>
    intent.metadata[METADATA[name]] === value;
  if (
    !marked('namespace', slot.namespace) ||
    !marked('customer', slot.customerId) ||
    !marked('period', slot.period)
  ) {
    return 'reply_for_another_slot';
  }
  if (intent.customer !== facts.stripeCustomerId) return 'reply_for_another_customer';
  if (intent.amountMinor !== facts.amountMinor) return 'reply_with_another_amount';
  if (intent.currency !== facts.currency) return 'reply_in_another_currency';
  if (facts.paymentIntentId !== null && intent.id !== facts.paymentIntentId) {
    return 'reply_for_another_payment_intent';
  }
  return null;
}

export function indeterminate(reason: string): ChargeOutcome {
  return { outcome: 'indeterminate', reason, advice: 'reconcile' };
}

function settled(outcome: ChargeOutcome): IntentReading {
  return { kind: 'settled', outcome };
}
