import { randomUUID } from 'node:crypto';
import type { Shop } from '../../harness/exhibit.ts';
import { paymentOf, stripeOf } from '../../harness/payments.ts';

/** A payment of the table. Its id is its key at Stripe, so a payment is never made twice. */
export interface Payment {
  readonly id: string;
  readonly customerId: string;
  state: 'open' | 'paid' | 'failed';
}

/** Bills whoever has not paid. Started again, it takes on those whose payment failed. */
export async function bill(shop: Shop, payments: Payment[]): Promise<void> {
  const stripe = stripeOf(shop);
  for (const customer of shop.customers) {
    const own = payments.filter(({ customerId }) => customerId === customer.id);
    if (own.some(({ state }) => state === 'paid')) continue;
    const payment: Payment = { id: randomUUID(), customerId: customer.id, state: 'open' };
    payments.push(payment);
    try {
      await stripe.paymentIntents.create(paymentOf(customer), { idempotencyKey: payment.id });
      payment.state = 'paid';
    } catch {
      payment.state = 'failed';
    }
  }
}
