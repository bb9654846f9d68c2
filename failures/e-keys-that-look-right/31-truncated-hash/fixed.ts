import type { Pool } from 'pg';
import type { Shop } from '../../harness/exhibit.ts';
import { paymentOf, stripeOf } from '../../harness/payments.ts';
import { stableKey } from '../../harness/stable-key.ts';

/** The whole hash. What is read out on the telephone may be short; what decides may not. */
export async function chargeAll(shop: Shop, pool: Pool): Promise<void> {
  const stripe = stripeOf(shop);
  for (const customer of shop.customers) {
    const idempotencyKey = stableKey('charge', customer.id, shop.period);
    const { rowCount } = await pool.query(
      'INSERT INTO charges (id) VALUES ($1) ON CONFLICT (id) DO NOTHING',
      [idempotencyKey],
    );
    if (rowCount === 0) continue;
    await stripe.paymentIntents.create(paymentOf(customer), { idempotencyKey });
  }
}
