import { randomUUID } from 'node:crypto';
import type { Shop } from '../../harness/exhibit.ts';
import { paymentOf, stripeOf } from '../../harness/payments.ts';

/** Bills everybody, once a month. */
export async function billEverybody(shop: Shop): Promise<void> {
  const stripe = stripeOf(shop);
  for (const customer of shop.customers)
    await stripe.paymentIntents.create(paymentOf(customer), { idempotencyKey: randomUUID() });
}
