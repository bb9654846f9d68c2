import fastify, { type FastifyInstance } from 'fastify';
import type { Shop } from '../../harness/exhibit.ts';
import { charge, type Order } from '../charge.ts';

/** A key that was answered is answered again. An error of ours is no answer: the client may try again. */
export function api(shop: Shop, sendReceipt: () => Promise<void>): FastifyInstance {
  const app = fastify();
  const answers = new Map<string, { readonly status: number; readonly body: unknown }>();
  app.addHook('preHandler', async ({ headers }, reply) => {
    const known = answers.get(String(headers['idempotency-key']));
    if (known !== undefined) return reply.code(known.status).send(known.body);
  });
  app.addHook('onSend', async ({ headers }, { statusCode: status }, body) => {
    if (status < 500) answers.set(String(headers['idempotency-key']), { status, body });
    return body;
  });
  app.post<{ Body: Order }>('/charges', async ({ body }, reply) => {
    const paid = await charge(shop, body);
    await sendReceipt();
    return reply.code(201).send(paid);
  });
  return app;
}
