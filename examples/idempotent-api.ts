// An API whose POSTs never run twice, on any PostgreSQL:
//   node examples/idempotent-api.ts postgres://user@127.0.0.1:5432/database
//   curl -i http://127.0.0.1:8440/orders -H 'Authorization: Bearer ann' -H 'Idempotency-Key: "order-1"' \
//     -H 'Content-Type: application/json' -d '{"item":"tea"}'
// The same command again shows the same answer, with `Idempotent-Replayed: true`. Without the key it is refused; with
// another body under the same key too. An application of its own imports 'chargeonce/idempotency'.
import Fastify from 'fastify';
import { Pool } from 'pg';
import {
  idempotency,
  migrationSql,
  PostgresIdempotencyStore,
} from '../src/http/idempotency/index.ts';

const PORT = 8440;
const HOUR_MS = 3_600_000;

const [, , connectionString, port = String(PORT)] = process.argv;
if (connectionString === undefined) throw new Error('the URL of a PostgreSQL database is missing');

const pool = new Pool({ connectionString });
// An idle connection that breaks is replaced; without a listener it would end the process.
pool.on('error', () => {});
await migrate();

const app = Fastify();
const store = new PostgresIdempotencyStore(pool);
const purge = setInterval(() => void store.purge(1_000).catch(() => {}), HOUR_MS);
app.addHook('onClose', async () => {
  clearInterval(purge);
  await pool.end();
});

const callerOf = (authorization = ''): string | null =>
  /^Bearer (\w{1,64})$/.exec(authorization)?.[1] ?? null;
app.addHook('onRequest', async (request, reply) => {
  // A real application looks the token up and takes the account that it belongs to.
  if (callerOf(request.headers.authorization) === null) return reply.code(401).send();
});
await app.register(idempotency, {
  store,
  principal: (request) => callerOf(request.headers.authorization),
  policyUrl: 'https://example.com/idempotency',
});

app.post<{ Body: { item: string } }>(
  '/orders',
  {
    schema: {
      body: { type: 'object', required: ['item'], properties: { item: { type: 'string' } } },
    },
    // It may run again after a crash, since its only effect is a row that is unique per caller and key.
    config: { idempotency: { takeover: 'rerun' } },
  },
  async (request, reply) => {
    const { principal, key } = request.idempotency ?? {};
    const { rows } = await pool.query<{ id: string }>(
      `INSERT INTO orders (caller, request_key, item) VALUES ($1, $2, $3)
       ON CONFLICT (caller, request_key) DO UPDATE SET item = excluded.item RETURNING id`,
      [principal, key, request.body.item],
    );
    const id = rows[0]?.id;
    return reply
      .code(201)
      .header('Location', `/orders/${id}`)
      .send({ id, item: request.body.item });
  },
);

for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => void app.close());
process.stdout.write(`${await app.listen({ host: '127.0.0.1', port: Number(port) })}\n`);

/** Once per database, whoever comes first. */
async function migrate(): Promise<void> {
  const client = await pool.connect();
  try {
    await client.query(`BEGIN; SELECT pg_advisory_xact_lock(8440)`);
    const { rows } = await client.query<{ there: boolean }>(
      `SELECT to_regclass('idempotency_records') IS NOT NULL AS there`,
    );
    if (rows[0]?.there !== true) await client.query(migrationSql());
    await client.query(
      `CREATE TABLE IF NOT EXISTS orders (id bigint GENERATED ALWAYS AS IDENTITY, caller text NOT NULL,
         request_key text NOT NULL, item text NOT NULL, UNIQUE (caller, request_key)); COMMIT`,
    );
  } finally {
    client.release();
  }
}
