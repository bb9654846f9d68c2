import { randomUUID } from 'node:crypto';
import fastify, { type FastifyInstance } from 'fastify';
import pRetry from 'p-retry';
import type { Shop } from '../../harness/exhibit.ts';
import { paymentOf, stripeOf, TRIES } from '../../harness/payments.ts';

/** The button "bill now" of the back office. A second press while it bills does nothing. */
export function backOffice(shop: Shop): FastifyInstance {
  const app = fastify();
  const stripe = stripeOf(shop);
  let billing = false;
  app.post('/admin/bill-now', async (_request, reply) => {
    if (billing) return reply.code(409).send({ error: 'already billing' });
    billing = true;
    try {
      const runId = randomUUID();
      for (const customer of shop.customers) {
        const idempotencyKey = `${runId}-${customer.id}`;
        await pRetry(
          () => stripe.paymentIntents.create(paymentOf(customer), { idempotencyKey }),
          TRIES,
        );
      }
      return { runId, charged: shop.customers.length };
    } finally {
      billing = false;
    }
  });
  return app;
}
