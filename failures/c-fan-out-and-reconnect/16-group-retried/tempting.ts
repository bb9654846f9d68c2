import { randomUUID } from 'node:crypto';
import type Stripe from 'stripe';
import type { Customer, Shop } from '../../harness/exhibit.ts';
import { paymentOf, stripeOf } from '../../harness/payments.ts';

const ROUNDS = 3;

export async function billEverybody(shop: Shop): Promise<void> {
  const stripe = stripeOf(shop);
  let group = shop.customers;
  for (let round = 1; group.length > 0; round += 1) {
    if (round > ROUNDS) throw new Error(`${group.length} customers could not be charged`);
    group = await chargeGroup(stripe, group);
  }
}

/** Charges all at once, and answers whose charge has failed. Nobody who was charged is in the next group. */
async function chargeGroup(stripe: Stripe, group: readonly Customer[]): Promise<Customer[]> {
  const groupId = randomUUID();
  const charges = await Promise.allSettled(
    group.map((customer) =>
      stripe.paymentIntents.create(paymentOf(customer), {
        idempotencyKey: `${groupId}-${customer.id}`,
      }),
    ),
  );
  return group.filter((_, at) => charges[at]?.status === 'rejected');
}
