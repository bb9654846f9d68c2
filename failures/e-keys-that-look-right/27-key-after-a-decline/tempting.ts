import Stripe from 'stripe';
import type { Customer, Shop } from '../../harness/exhibit.ts';
import { paymentOf, stripeOf } from '../../harness/payments.ts';

/** Hours after the first try at which a declined charge is tried again; then the subscription ends. */
export const DUNNING_HOURS: readonly number[] = [8, 16];

/** One key per customer and period: whatever happens, nobody is charged twice for it. */
export async function collect(
  shop: Shop,
  customer: Customer,
  atHour: (hour: number) => Promise<void>,
): Promise<'paid' | 'ended'> {
  const stripe = stripeOf(shop);
  const idempotencyKey = `bill-${customer.id}-${shop.period}`;
  for (const hour of [0, ...DUNNING_HOURS]) {
    await atHour(hour);
    try {
      await stripe.paymentIntents.create(paymentOf(customer), { idempotencyKey });
      return 'paid';
    } catch (error) {
      if (!(error instanceof Stripe.errors.StripeCardError)) throw error;
    }
  }
  return 'ended';
}
