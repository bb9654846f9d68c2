import fastify, { type FastifyInstance } from 'fastify';
import {
  idempotency,
  migrationSql,
  PostgresIdempotencyStore,
} from '../../src/http/idempotency/index.ts';
import type { Shop } from '../harness/exhibit.ts';
import { openPool } from '../harness/pool.ts';
import type { OursWorld } from '../harness/ours-world.ts';
import { charge, type Order } from './charge.ts';

/** The same route behind chargeonce/idempotency; its keys are in a database of their own. */
export async function protectedApi(
  world: OursWorld,
  parts: { readonly shop?: Shop; readonly afterCharge?: () => Promise<void> } = {},
): Promise<FastifyInstance> {
  const pool = openPool(await world.house.emptyDatabase());
  world.defer(() => pool.end());
  await pool.query(migrationSql());
  const app = fastify();
  await app.register(idempotency, {
    store: new PostgresIdempotencyStore(pool),
    principal: () => 'shop',
    policyUrl: 'https://shop.example/idempotency',
  });
  app.post<{ Body: Order }>('/charges', async ({ body }, reply) => {
    const paid = await charge(parts.shop ?? world, body);
    await parts.afterCharge?.();
    return reply.code(201).send(paid);
  });
  return app;
}
