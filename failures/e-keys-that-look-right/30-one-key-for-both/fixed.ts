import Stripe from 'stripe';
import type { Customer, Shop } from '../../harness/exhibit.ts';
import { paymentOf, stripeOf } from '../../harness/payments.ts';
import { stableKey } from '../../harness/stable-key.ts';

/** One charge, one payment intent, and a key for each thing that is asked of it. */
export async function charge(
  shop: Shop,
  customer: Customer,
  newCardOf: (customer: Customer) => Promise<string>,
): Promise<void> {
  const stripe = stripeOf(shop);
  const keyOf = (operation: string, generation: number) => ({
    idempotencyKey: stableKey(operation, customer.id, shop.period, String(generation)),
  });
  try {
    await stripe.paymentIntents.create(paymentOf(customer), keyOf('create', 1));
  } catch (error) {
    if (!(error instanceof Stripe.errors.StripeCardError)) throw error;
    const intent = error.payment_intent?.id ?? '';
    const card = { payment_method: await newCardOf(customer), off_session: true };
    await stripe.paymentIntents.confirm(intent, card, keyOf('confirm', 2));
  }
}
