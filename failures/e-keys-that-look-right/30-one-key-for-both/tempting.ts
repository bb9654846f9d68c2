import Stripe from 'stripe';
import type { Customer, Shop } from '../../harness/exhibit.ts';
import { paymentOf, stripeOf } from '../../harness/payments.ts';
import { stableKey } from '../../harness/stable-key.ts';

/** One charge, one key, whatever it takes. `newCardOf` asks the customer for another card. */
export async function charge(
  shop: Shop,
  customer: Customer,
  newCardOf: (customer: Customer) => Promise<string>,
): Promise<void> {
  const stripe = stripeOf(shop);
  const options = { idempotencyKey: stableKey('charge', customer.id, shop.period) };
  try {
    await stripe.paymentIntents.create(paymentOf(customer), options);
  } catch (error) {
    if (!(error instanceof Stripe.errors.StripeCardError)) throw error;
    const intent = error.payment_intent?.id ?? '';
    const card = { payment_method: await newCardOf(customer), off_session: true };
    try {
      await stripe.paymentIntents.confirm(intent, card, options);
    } catch (error) {
      // The key was used before: an earlier run has got as far as this.
      if (!(error instanceof Stripe.errors.StripeIdempotencyError)) throw error;
    }
  }
}
