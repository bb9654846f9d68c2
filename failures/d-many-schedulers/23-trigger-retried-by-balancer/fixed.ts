import fastify, { type FastifyInstance } from 'fastify';
import pRetry from 'p-retry';
import type { Shop } from '../../harness/exhibit.ts';
import { stableKey } from '../../harness/stable-key.ts';
import { paymentOf, stripeOf, TRIES } from '../../harness/payments.ts';

/** The same button. However often it is pressed, and on whatever server: it asks for the same charges. */
export function backOffice(shop: Shop): FastifyInstance {
  const app = fastify();
  const stripe = stripeOf(shop);
  app.post('/admin/bill-now', async () => {
    for (const customer of shop.customers) {
      const idempotencyKey = stableKey('create', customer.id, shop.period);
      await pRetry(
        () => stripe.paymentIntents.create(paymentOf(customer), { idempotencyKey }),
        TRIES,
      );
    }
    return { period: shop.period, charged: shop.customers.length };
  });
  return app;
}
