import fastify, { type FastifyInstance } from 'fastify';
import type { Pool } from 'pg';
import type { Shop } from '../../harness/exhibit.ts';
import { charge, type Order } from '../charge.ts';

/** Takes the key before it charges, and gives it back when that fails: nobody is locked out by an error. */
export function api(shop: Shop, pool: Pool): FastifyInstance {
  const app = fastify();
  app.post<{ Body: Order }>('/charges', async ({ body, headers }, reply) => {
    const key = headers['idempotency-key'];
    const claim = await pool.query('INSERT INTO answers (key) VALUES ($1) ON CONFLICT DO NOTHING', [
      key,
    ]);
    if (claim.rowCount === 0) {
      const { rows } = await pool.query<{ status: number | null; body: object | null }>(
        'SELECT status, body FROM answers WHERE key = $1',
        [key],
      );
      const status = rows[0]?.status ?? null;
      if (status === null) return reply.code(409).send({ error: 'under way' });
      return reply.code(status).send(rows[0]?.body);
    }
    try {
      const paid = await charge(shop, body);
      await pool.query('UPDATE answers SET status = 201, body = $2 WHERE key = $1', [key, paid]);
      return await reply.code(201).send(paid);
    } catch (error) {
      await pool.query('DELETE FROM answers WHERE key = $1', [key]);
      throw error;
    }
  });
  return app;
}
