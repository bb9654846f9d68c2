import type Stripe from 'stripe';
import type { Customer, Shop } from '../../harness/exhibit.ts';
import { stableKey } from '../../harness/stable-key.ts';
import { paymentOf, stripeOf } from '../../harness/payments.ts';

const ROUNDS = 3;

export async function billEverybody(shop: Shop): Promise<void> {
  const stripe = stripeOf(shop);
  let open = shop.customers;
  for (let round = 1; open.length > 0; round += 1) {
    if (round > ROUNDS) throw new Error(`${open.length} customers could not be charged`);
    open = await chargeGroup(stripe, open, shop.period);
  }
}

/** Charges all at once, and answers of whom nothing is known. In the next group each has the key of the last. */
async function chargeGroup(
  stripe: Stripe,
  group: readonly Customer[],
  period: string,
): Promise<Customer[]> {
  const charges = await Promise.allSettled(
    group.map((customer) =>
      stripe.paymentIntents.create(paymentOf(customer), {
        idempotencyKey: stableKey('create', customer.id, period),
      }),
    ),
  );
  return group.filter((_, at) => charges[at]?.status === 'rejected');
}
