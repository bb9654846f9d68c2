import pRetry from 'p-retry';
import Stripe from 'stripe';
import type { Shop } from '../../harness/exhibit.ts';

/** The SDK makes an idempotency key by itself, so retrying is safe. */
export async function billEverybody(shop: Shop): Promise<void> {
  const { hostname, port } = new URL(shop.stripeUrl);
  const stripe = new Stripe(shop.apiKey, {
    host: hostname,
    port,
    protocol: 'http',
    maxNetworkRetries: 1,
  });
  for (const customer of shop.customers) {
    await pRetry(
      () =>
        stripe.paymentIntents.create({
          amount: customer.amountMinor,
          currency: customer.currency,
          customer: customer.stripeCustomer,
          payment_method: customer.paymentMethod,
          off_session: true,
          confirm: true,
        }),
      { retries: 3, minTimeout: 10 },
    );
  }
}
