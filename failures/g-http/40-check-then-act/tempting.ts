import fastify, { type FastifyInstance } from 'fastify';
import type { Pool } from 'pg';
import type { Shop } from '../../harness/exhibit.ts';
import { charge, type Order } from '../charge.ts';

/** A key that was answered is answered again; the table is shared by all servers. */
export function api(shop: Shop, pool: Pool): FastifyInstance {
  const app = fastify();
  app.post<{ Body: Order }>('/charges', async ({ body, headers }, reply) => {
    const key = headers['idempotency-key'];
    const known = await pool.query<{ status: number; body: object }>(
      'SELECT status, body FROM answers WHERE key = $1',
      [key],
    );
    const [answer] = known.rows;
    if (answer !== undefined) return reply.code(answer.status).send(answer.body);
    const paid = await charge(shop, body);
    await pool.query(
      'INSERT INTO answers (key, status, body) VALUES ($1, 201, $2) ON CONFLICT DO NOTHING',
      [key, paid],
    );
    return reply.code(201).send(paid);
  });
  return app;
}
