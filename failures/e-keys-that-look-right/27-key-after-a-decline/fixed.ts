import Stripe from 'stripe';
import type { Customer, Shop } from '../../harness/exhibit.ts';
import { paymentOf, stripeOf } from '../../harness/payments.ts';
import { stableKey } from '../../harness/stable-key.ts';
import { DUNNING_HOURS } from './tempting.ts';

/** A decline ends a generation, and the next order begins another one. Nothing else does: no time-out, no 5xx. */
export async function collect(
  shop: Shop,
  customer: Customer,
  atHour: (hour: number) => Promise<void>,
): Promise<'paid' | 'ended'> {
  const stripe = stripeOf(shop);
  let generation = 1;
  for (const hour of [0, ...DUNNING_HOURS]) {
    await atHour(hour);
    const idempotencyKey = stableKey('bill', customer.id, shop.period, String(generation));
    try {
      await stripe.paymentIntents.create(paymentOf(customer), { idempotencyKey });
      return 'paid';
    } catch (error) {
      if (!(error instanceof Stripe.errors.StripeCardError)) throw error;
      generation += 1;
    }
  }
  return 'ended';
}
