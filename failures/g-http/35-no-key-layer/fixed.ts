import fastify, { type FastifyInstance } from 'fastify';
import type { Shop } from '../../harness/exhibit.ts';
import { stableKey } from '../../harness/stable-key.ts';
import { charge, type Order } from '../charge.ts';

/** What the client means as one is one at Stripe too. Two customers may send the same key, so it is not theirs alone. */
export function api(shop: Shop): FastifyInstance {
  const app = fastify();
  app.post<{ Body: Order }>('/charges', async ({ body, headers }, reply) => {
    const key = headers['idempotency-key'];
    if (typeof key !== 'string')
      return reply.code(400).send({ error: 'Idempotency-Key is missing' });
    const paid = await charge(shop, body, stableKey('charge', body.customer, key));
    return reply.code(201).send(paid);
  });
  return app;
}
