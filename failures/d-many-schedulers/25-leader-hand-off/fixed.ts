import { setTimeout } from 'node:timers/promises';
import pRetry from 'p-retry';
import type { Pool } from 'pg';
import type { Shop } from '../../harness/exhibit.ts';
import { stableKey } from '../../harness/stable-key.ts';
import { paymentOf, stripeOf, TRIES } from '../../harness/payments.ts';
import { hold, type Lease } from './lease.ts';

/** Waits to be the leader, and bills for as long as it is. */
export async function billAsLeader(shop: Shop, pool: Pool, lease: Lease): Promise<void> {
  const stripe = stripeOf(shop);
  while (!(await hold(pool, lease))) await setTimeout(lease.leaseMs / 5);
  for (const customer of shop.customers) {
    const row = [customer.id, shop.period];
    const { rowCount } = await pool.query(
      'SELECT 1 FROM billed WHERE customer_id = $1 AND period = $2',
      row,
    );
    if (rowCount === 1) continue;
    // Another one leads by now: it goes on from here.
    if (!(await hold(pool, lease))) return;
    // Two leaders, for a moment, ask for one charge.
    const idempotencyKey = stableKey('create', customer.id, shop.period);
    await pRetry(
      () => stripe.paymentIntents.create(paymentOf(customer), { idempotencyKey }),
      TRIES,
    );
    await pool.query('INSERT INTO billed VALUES ($1, $2) ON CONFLICT DO NOTHING', row);
  }
}
