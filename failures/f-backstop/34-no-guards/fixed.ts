import pRetry from 'p-retry';
import type { Shop } from '../../harness/exhibit.ts';
import { paymentOf, stripeOf } from '../../harness/payments.ts';
import { stableKey } from '../../harness/stable-key.ts';

/** Another replica may be charging under this key right now; that is answered with 409, and is soon over. */
const WHILE_IN_USE = { retries: 6, minTimeout: 25 };

/** Bills everybody, whichever replica does it: all of them ask for the same charges. */
export async function billEverybody(shop: Shop): Promise<void> {
  const stripe = stripeOf(shop);
  for (const customer of shop.customers) {
    const idempotencyKey = stableKey('create', customer.id, shop.period);
    await pRetry(
      () => stripe.paymentIntents.create(paymentOf(customer), { idempotencyKey }),
      WHILE_IN_USE,
    );
  }
}
