import fastify, { type FastifyInstance } from 'fastify';
import type { Shop } from '../../harness/exhibit.ts';
import { charge, type Order } from '../charge.ts';

/** Clients send an Idempotency-Key already; Stripe gets one as well, for each charge. */
export function api(shop: Shop): FastifyInstance {
  const app = fastify();
  app.post<{ Body: Order }>('/charges', async ({ body }, reply) => {
    const paid = await charge(shop, body);
    return reply.code(201).send(paid);
  });
  return app;
}
