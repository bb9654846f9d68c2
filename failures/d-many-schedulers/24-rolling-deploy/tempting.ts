import pRetry from 'p-retry';
import type { Pool } from 'pg';
import type { Customer, Shop } from '../../harness/exhibit.ts';
import { stableKey } from '../../harness/stable-key.ts';
import { paymentOf, stripeOf, TRIES } from '../../harness/payments.ts';

export const SCHEMA = `
  CREATE TABLE billed (customer_id text, period text, PRIMARY KEY (customer_id, period))`;

export type KeyOf = (customer: Customer, period: string) => string;

/** Up to release 41. */
export const keyOf41: KeyOf = (customer, period) => `bill-${customer.id}-${period}`;
/** From release 42: joined by "-", two customers could get one key. */
export const keyOf42: KeyOf = (customer, period) => stableKey('bill', customer.id, period);

/** Charges whoever is not billed yet. Runs when the process comes up, so that a deploy loses nobody. */
export async function billEverybody(shop: Shop, pool: Pool, keyOf: KeyOf): Promise<void> {
  const stripe = stripeOf(shop);
  for (const customer of shop.customers) {
    const row = [customer.id, shop.period];
    const { rowCount } = await pool.query(
      'SELECT 1 FROM billed WHERE customer_id = $1 AND period = $2',
      row,
    );
    if (rowCount === 1) continue;
    const idempotencyKey = keyOf(customer, shop.period);
    await pRetry(
      () => stripe.paymentIntents.create(paymentOf(customer), { idempotencyKey }),
      TRIES,
    );
    await pool.query('INSERT INTO billed VALUES ($1, $2) ON CONFLICT DO NOTHING', row);
  }
}
