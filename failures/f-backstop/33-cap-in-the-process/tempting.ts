import { randomUUID } from 'node:crypto';
import type { Shop } from '../../harness/exhibit.ts';
import { paymentOf, stripeOf } from '../../harness/payments.ts';

/** Whatever goes wrong, a run takes no more than this times what is due. */
const MOST = 1.1;

/** Bills everybody. Should something charge twice, the cap ends the run. */
export async function billEverybody(shop: Shop): Promise<void> {
  const stripe = stripeOf(shop);
  const due = shop.customers.reduce((sum, { amountMinor }) => sum + amountMinor, 0);
  let spent = 0;
  for (const customer of shop.customers) {
    if (spent + customer.amountMinor > MOST * due)
      throw new Error('the cap of this run is reached');
    await stripe.paymentIntents.create(paymentOf(customer), { idempotencyKey: randomUUID() });
    spent += customer.amountMinor;
  }
}
