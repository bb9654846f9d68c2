import type { Pool } from 'pg';
import type PgBoss from 'pg-boss';
import Stripe from 'stripe';
import type { Customer, Shop } from '../../harness/exhibit.ts';

/** Charges whoever stands in the queue, and writes down whom it has charged. */
export async function startCharging(shop: Shop, boss: PgBoss, pool: Pool): Promise<void> {
  const { hostname, port } = new URL(shop.stripeUrl);
  const stripe = new Stripe(shop.apiKey, { host: hostname, port, protocol: 'http' });
  await boss.work<Customer>('charges', { pollingIntervalSeconds: 0.5 }, async ([job]) => {
    if (job === undefined) return;
    const customer = job.data;
    try {
      const intent = await stripe.paymentIntents.create(
        {
          amount: customer.amountMinor,
          currency: customer.currency,
          customer: customer.stripeCustomer,
          payment_method: customer.paymentMethod,
          off_session: true,
          confirm: true,
        },
        // A job keeps its id, however often it is delivered.
        { idempotencyKey: job.id },
      );
      await pool.query('INSERT INTO audit (customer, intent) VALUES ($1, $2)', [
        customer.id,
        intent.id,
      ]);
    } catch (error) {
      // A refused card is a matter for dunning.
      if (error instanceof Stripe.errors.StripeCardError) return;
      // Nobody else may be lost: back into the queue.
      await boss.send('charges', customer);
    }
  });
}
