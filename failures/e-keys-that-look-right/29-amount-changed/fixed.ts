import pRetry, { AbortError } from 'p-retry';
import Stripe from 'stripe';
import type { Customer, Shop } from '../../harness/exhibit.ts';
import { paymentOf, stripeOf } from '../../harness/payments.ts';
import { stableKey } from '../../harness/stable-key.ts';

/** The sum is read once, before the first send; what is used afterwards belongs to the next bill. */
export async function chargeUsage(
  shop: Shop,
  usageOf: (customer: Customer) => Promise<number>,
): Promise<void> {
  const stripe = stripeOf(shop);
  for (const customer of shop.customers) {
    const payment = { ...paymentOf(customer), amount: await usageOf(customer) };
    const idempotencyKey = stableKey('create', customer.id, shop.period);
    const charge = async (): Promise<void> => {
      try {
        await stripe.paymentIntents.create(payment, { idempotencyKey });
      } catch (error) {
        // Something was sent under this key that was not this. Nobody knows what, so nothing more is sent.
        if (error instanceof Stripe.errors.StripeIdempotencyError) throw new AbortError(error);
        throw error;
      }
    };
    await pRetry(charge, { retries: 4, minTimeout: 10 });
  }
}
