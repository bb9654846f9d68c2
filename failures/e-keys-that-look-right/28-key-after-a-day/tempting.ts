import Stripe from 'stripe';
import type { Customer, Shop } from '../../harness/exhibit.ts';
import { paymentOf, stripeOf } from '../../harness/payments.ts';

/** A row of the outbox: written before the first send, together with its key. */
export interface Job {
  readonly customer: Customer;
  readonly idempotencyKey: string;
  state: 'pending' | 'done';
}

/** Sends what is pending. It is always the stored key, so what was charged is not charged again. */
export async function sendPending(shop: Shop, outbox: readonly Job[]): Promise<void> {
  const stripe = stripeOf(shop);
  for (const job of outbox) {
    if (job.state === 'done') continue;
    const { customer, idempotencyKey } = job;
    try {
      await stripe.paymentIntents.create(paymentOf(customer), { idempotencyKey });
      job.state = 'done';
    } catch (error) {
      // No answer: it stays pending, and the next pass asks again.
      if (!(error instanceof Stripe.errors.StripeConnectionError)) throw error;
    }
  }
}
