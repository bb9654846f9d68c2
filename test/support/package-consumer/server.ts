// Only type-checked, as a consumer of the package would be.
import Fastify from 'fastify';
import { Pool } from 'pg';
import {
  idempotency,
  migrationSql,
  PostgresIdempotencyStore,
  storeConformance,
  type IdempotencyStore,
} from 'chargeonce/idempotency';

const pool = new Pool();
pool.on('error', () => {});
const store: IdempotencyStore = new PostgresIdempotencyStore(pool);
const sql: string = migrationSql();
const app = Fastify();
await pool.query(sql);
await app.register(idempotency, {
  store,
  principal: (request) => request.headers.host ?? null,
  policyUrl: '/idempotency',
  endpoint: 'route',
});
app.post('/a', { config: { idempotency: { takeover: 'rerun' } } }, async (request) => {
  const fence: number | undefined = request.idempotency?.fence;
  return { fence, aborted: request.idempotency?.signal.aborted };
});
for (const check of storeConformance()) await check.run(store, { shortMs: 5, patienceMs: 1_000 });
app.post('/b', { config: { idempotency: false } }, async () => 'ok');
// @ts-expect-error -- there is no such way to take over
app.post('/c', { config: { idempotency: { takeover: 'perhaps' } } }, async () => 'ok');
// @ts-expect-error -- a store is required
await app.register(idempotency, { principal: () => 'a', policyUrl: '/' });
