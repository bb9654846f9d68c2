import Stripe from 'stripe';
import type { Customer, Shop } from './exhibit.ts';

/** Longer than any race of the gallery, so that a key in use is free again before the last try. */
export const TRIES = { retries: 6, minTimeout: 25 } as const;

/** Stripe's client as an application has it: one try, since the code above decides what is tried again. */
export function stripeOf(shop: Shop): Stripe {
  const { hostname, port } = new URL(shop.stripeUrl);
  return new Stripe(shop.apiKey, { host: hostname, port, protocol: 'http', maxNetworkRetries: 0 });
}

/** One charge off-session, as a single call. */
export function paymentOf(customer: Customer): Stripe.PaymentIntentCreateParams {
  return {
    amount: customer.amountMinor,
    currency: customer.currency,
    customer: customer.stripeCustomer,
    payment_method: customer.paymentMethod,
    off_session: true,
    confirm: true,
  };
}
