import { randomUUID } from 'node:crypto';
import pRetry from 'p-retry';
import type { Pool } from 'pg';
import type { Shop } from '../../harness/exhibit.ts';
import { paymentOf, stripeOf, TRIES } from '../../harness/payments.ts';

/** Charges whoever is not through yet; may be started again at any time. */
export async function billEverybody(shop: Shop, pool: Pool): Promise<void> {
  const stripe = stripeOf(shop);
  for (const customer of shop.customers) {
    if (await hasCompletedForPeriod(pool, customer.id, shop.period)) continue;
    const idempotencyKey = randomUUID();
    const payment = await pRetry(
      () => stripe.paymentIntents.create(paymentOf(customer), { idempotencyKey }),
      TRIES,
    );
    await pool.query(
      `INSERT INTO completed_charges (customer_id, period, payment_intent_id) VALUES ($1, $2, $3)
       ON CONFLICT (customer_id, period) DO NOTHING`,
      [customer.id, shop.period, payment.id],
    );
  }
}

async function hasCompletedForPeriod(pool: Pool, customerId: string, period: string) {
  const { rowCount } = await pool.query(
    'SELECT 1 FROM completed_charges WHERE customer_id = $1 AND period = $2',
    [customerId, period],
  );
  return rowCount === 1;
}
