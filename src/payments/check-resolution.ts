import type { SlotRef } from '../domain/ids.ts';
import { METADATA } from '../domain/metadata.ts';
import type { ChargeSeen, PaymentGateway } from './gateway.ts';

/** What the slot must agree with. */
export interface ResolvedSlot extends SlotRef {
  readonly paymentIntentId: string | null;
  readonly stripeCustomerId: string;
  readonly amountMinor: number;
  readonly currency: string;
}

/**
 * Whether the charge that a person names pays this slot, by Stripe's own word: the PaymentIntent it belongs
 * to, or why it does not. Throws LookupFailed when Stripe gave no answer.
 */
export async function checkCharge(
  gateway: PaymentGateway,
  slot: ResolvedSlot,
  chargeId: string,
): Promise<
  | { readonly ok: true; readonly paymentIntentId: string }
  | { readonly ok: false; readonly problem: string }
> {
  const charge = await gateway.retrieveCharge(chargeId);
  const problem = problemOf(charge, slot);
  if (problem !== null) return { ok: false, problem };
  if (charge.paymentIntentId === null) {
    return { ok: false, problem: `${charge.id} belongs to no PaymentIntent, so it is not ours` };
  }
  const { metadata } = await gateway.retrievePaymentIntent(charge.paymentIntentId);
  const named = (name: keyof typeof METADATA): string | undefined => metadata[METADATA[name]];
  const other =
    (named('period') ?? slot.period) !== slot.period ||
    (named('namespace') ?? slot.namespace) !== slot.namespace ||
    (named('customer') ?? slot.customerId) !== slot.customerId;
  if (other) {
    const whose = `${named('customer') ?? ''} in ${named('period') ?? ''} (${named('namespace') ?? ''})`;
    return {
      ok: false,
      problem: `${charge.id} pays ${whose}, by the metadata of its PaymentIntent`,
    };
  }
  return { ok: true, paymentIntentId: charge.paymentIntentId };
}

function problemOf(charge: ChargeSeen, slot: ResolvedSlot): string | null {
  if (charge.status !== 'succeeded') return `${charge.id} is ${charge.status} at Stripe`;
  if (charge.customer !== slot.stripeCustomerId) {
    return `${charge.id} is a charge of ${charge.customer ?? 'no customer'}, not of ${slot.stripeCustomerId}`;
  }
  if (charge.amountMinor !== slot.amountMinor || charge.currency !== slot.currency) {
    return (
      `${charge.id} is over ${charge.amountMinor} ${charge.currency} (minor units), ` +
      `the slot over ${slot.amountMinor} ${slot.currency}`
    );
  }
  if (charge.amountRefundedMinor > 0) return `${charge.id} has been refunded`;
  if (slot.paymentIntentId !== null && charge.paymentIntentId !== slot.paymentIntentId) {
    return (
      `${charge.id} belongs to ${charge.paymentIntentId ?? 'no PaymentIntent'}, while this slot owns ` +
      `${slot.paymentIntentId}, which may still succeed. Cancel that one at Stripe: the slot then ends as ` +
      'misconfigured (payment_intent_canceled) and nobody is charged by us'
    );
  }
  return null;
}

/** Why a slot cannot be called absent, by Stripe's own word, or null. Throws LookupFailed without an answer. */
export async function checkAbsent(
  gateway: PaymentGateway,
  slot: Pick<ResolvedSlot, 'paymentIntentId'>,
): Promise<string | null> {
  if (slot.paymentIntentId === null) return null;
  const { id, status } = await gateway.retrievePaymentIntent(slot.paymentIntentId);
  if (['requires_confirmation', 'requires_payment_method', 'canceled'].includes(status))
    return null;
  return `Stripe shows ${id} as ${status}: that is no absence. "chargeonce sweep" records what Stripe shows`;
}
