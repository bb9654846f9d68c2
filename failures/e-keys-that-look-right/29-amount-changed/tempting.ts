import pRetry from 'p-retry';
import Stripe from 'stripe';
import type { Customer, Shop } from '../../harness/exhibit.ts';
import { paymentOf, stripeOf } from '../../harness/payments.ts';

/** Charges what has been used. Usage goes on meanwhile, so each try bills the sum as it stands. */
export async function chargeUsage(
  shop: Shop,
  usageOf: (customer: Customer) => Promise<number>,
): Promise<void> {
  const stripe = stripeOf(shop);
  for (const customer of shop.customers) {
    let version = 1;
    const charge = async (): Promise<void> => {
      const amount = await usageOf(customer);
      const idempotencyKey = `${shop.period}-${customer.id}-v${version}`;
      try {
        await stripe.paymentIntents.create({ ...paymentOf(customer), amount }, { idempotencyKey });
      } catch (error) {
        // "Keys can only be used with the same parameters": the sum has moved, so it needs a key of its own.
        if (error instanceof Stripe.errors.StripeIdempotencyError) version += 1;
        throw error;
      }
    };
    await pRetry(charge, { retries: 4, minTimeout: 10 });
  }
}
