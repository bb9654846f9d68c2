import { createHash } from 'node:crypto';
import type { Pool } from 'pg';
import type { Shop } from '../../harness/exhibit.ts';
import { paymentOf, stripeOf } from '../../harness/payments.ts';

/** Names a charge; short enough to be read out on the telephone, as a commit's. */
export function chargeId(customerId: string, period: string): string {
  return createHash('sha256').update(`${customerId}/${period}`).digest('hex').slice(0, 8);
}

/** Charges everybody once: the table has a row for each charge, and its id is the key at Stripe. */
export async function chargeAll(shop: Shop, pool: Pool): Promise<void> {
  const stripe = stripeOf(shop);
  for (const customer of shop.customers) {
    const idempotencyKey = chargeId(customer.id, shop.period);
    const { rowCount } = await pool.query(
      'INSERT INTO charges (id) VALUES ($1) ON CONFLICT (id) DO NOTHING',
      [idempotencyKey],
    );
    // An earlier run has taken this one.
    if (rowCount === 0) continue;
    await stripe.paymentIntents.create(paymentOf(customer), { idempotencyKey });
  }
}
