import { randomUUID } from 'node:crypto';
import pRetry from 'p-retry';
import type { Pool } from 'pg';
import type { Shop } from '../../harness/exhibit.ts';
import { paymentOf, stripeOf, TRIES } from '../../harness/payments.ts';
import { isBilled, markBilled } from './billed.ts';
import type { WithLock } from './locks.ts';

/** Nobody looks, charges and writes while another one does. */
export async function billEverybody(shop: Shop, pool: Pool, withLock: WithLock): Promise<void> {
  const stripe = stripeOf(shop);
  await withLock(pool, `billing-${shop.period}`, async () => {
    for (const customer of shop.customers) {
      if (await isBilled(pool, customer.id, shop.period)) continue;
      const idempotencyKey = randomUUID();
      await pRetry(
        () => stripe.paymentIntents.create(paymentOf(customer), { idempotencyKey }),
        TRIES,
      );
      await markBilled(pool, customer.id, shop.period);
    }
  });
}
