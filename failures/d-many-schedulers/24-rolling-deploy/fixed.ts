import pRetry from 'p-retry';
import type { Pool } from 'pg';
import type { Customer, Shop } from '../../harness/exhibit.ts';
import { paymentOf, stripeOf, TRIES } from '../../harness/payments.ts';
import type { KeyOf } from './tempting.ts';

export const SCHEMA = `
  CREATE TABLE charges (
    customer_id text,
    period text,
    idempotency_key text NOT NULL UNIQUE,
    charged boolean NOT NULL DEFAULT false,
    PRIMARY KEY (customer_id, period)
  )`;

/** The recipe is asked once for each charge. Every release sends the key that is stored. */
export async function billEverybody(shop: Shop, pool: Pool, keyOf: KeyOf): Promise<void> {
  const stripe = stripeOf(shop);
  for (const customer of shop.customers) {
    const { idempotencyKey, charged } = await claim(pool, customer, { keyOf, shop });
    if (charged) continue;
    await pRetry(
      () => stripe.paymentIntents.create(paymentOf(customer), { idempotencyKey }),
      TRIES,
    );
    await pool.query('UPDATE charges SET charged = true WHERE customer_id = $1 AND period = $2', [
      customer.id,
      shop.period,
    ]);
  }
}

/** Stores the key before anything is sent, or reads the one that another release has stored. */
async function claim(
  pool: Pool,
  customer: Customer,
  { keyOf, shop: { period } }: { readonly keyOf: KeyOf; readonly shop: Shop },
): Promise<{ readonly idempotencyKey: string; readonly charged: boolean }> {
  await pool.query(
    `INSERT INTO charges (customer_id, period, idempotency_key) VALUES ($1, $2, $3)
     ON CONFLICT (customer_id, period) DO NOTHING`,
    [customer.id, period, keyOf(customer, period)],
  );
  const { rows } = await pool.query<{ idempotencyKey: string; charged: boolean }>(
    `SELECT idempotency_key AS "idempotencyKey", charged FROM charges
     WHERE customer_id = $1 AND period = $2`,
    [customer.id, period],
  );
  const [row] = rows;
  if (row === undefined) throw new Error(`${customer.id} has no row in ${period}`);
  return row;
}
