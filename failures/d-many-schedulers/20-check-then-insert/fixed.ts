import pRetry from 'p-retry';
import type { Pool } from 'pg';
import type { Shop } from '../../harness/exhibit.ts';
import { stableKey } from '../../harness/stable-key.ts';
import { paymentOf, stripeOf, TRIES } from '../../harness/payments.ts';

/** Claims first: of all who ask, the database lets one insert. */
export async function billEverybody(shop: Shop, pool: Pool): Promise<void> {
  const stripe = stripeOf(shop);
  for (const customer of shop.customers) {
    if (!(await claim(pool, customer.id, shop.period))) continue;
    // Whoever has to take a claim over from a dead process asks for the same charge.
    const idempotencyKey = stableKey('create', customer.id, shop.period);
    const payment = await pRetry(
      () => stripe.paymentIntents.create(paymentOf(customer), { idempotencyKey }),
      TRIES,
    );
    await pool.query(
      'UPDATE completed_charges SET payment_intent_id = $3 WHERE customer_id = $1 AND period = $2',
      [customer.id, shop.period, payment.id],
    );
  }
}

/** True for one caller, however many there are. */
async function claim(pool: Pool, customerId: string, period: string): Promise<boolean> {
  const { rowCount } = await pool.query(
    `INSERT INTO completed_charges (customer_id, period) VALUES ($1, $2)
     ON CONFLICT (customer_id, period) DO NOTHING`,
    [customerId, period],
  );
  return rowCount === 1;
}
