import { randomUUID } from 'node:crypto';
import Stripe from 'stripe';
import type { Customer, Shop } from '../../harness/exhibit.ts';
import { paymentOf, stripeOf } from '../../harness/payments.ts';

export interface Payment {
  readonly id: string;
  readonly customerId: string;
  state: 'unknown' | 'paid' | 'declined';
}

/** Only a decline is a failure. Everything else is unknown, and the unknown is asked about under its own id. */
export async function bill(shop: Shop, payments: Payment[]): Promise<void> {
  const stripe = stripeOf(shop);
  for (const customer of shop.customers) {
    const last = payments.findLast(({ customerId }) => customerId === customer.id);
    if (last?.state === 'paid') continue;
    if (last?.state === 'unknown' && (await isPaid(stripe, customer, last))) {
      last.state = 'paid';
      continue;
    }
    const payment: Payment =
      last?.state === 'unknown'
        ? last
        : { id: randomUUID(), customerId: customer.id, state: 'unknown' };
    if (payment !== last) payments.push(payment);
    const marked = { ...paymentOf(customer), metadata: { payment: payment.id } };
    try {
      await stripe.paymentIntents.create(marked, { idempotencyKey: payment.id });
      payment.state = 'paid';
    } catch (error) {
      if (error instanceof Stripe.errors.StripeCardError) payment.state = 'declined';
    }
  }
}

async function isPaid(stripe: Stripe, { stripeCustomer }: Customer, { id }: Payment) {
  const { data } = await stripe.paymentIntents.list({ customer: stripeCustomer });
  return data.some(({ metadata, status }) => metadata['payment'] === id && status === 'succeeded');
}
