// One server process with the Idempotency-Key layer: node test/support/idempotent-server.ts '<ServerOrder as JSON>'.
// It stops where a request's X-Stop-At says, tells its parent, and goes on when it is told to.
// oxlint-disable oxc/no-async-endpoint-handlers -- Fastify waits for its handlers
import { Readable } from 'node:stream';
import Fastify, { type FastifyRequest } from 'fastify';
import { Pool } from 'pg';
import {
  idempotency,
  PostgresIdempotencyStore,
  type Queryable,
} from '../../src/http/idempotency/index.ts';
import { portOf } from '../../src/listening.ts';

/** Where a request can be stopped, in the order in which it comes by. */
export type StopPoint =
  | 'beforeClaimCommit'
  | 'afterClaim'
  | 'inHandler'
  | 'afterEffect'
  | 'beforeAnswerCommit'
  | 'afterAnswerCommit'
  | 'inReply';

export interface ServerOrder {
  readonly databaseUrl: string;
  readonly leaseMs: number;
}

/** What the process tells its parent. */
export type ServerWord =
  | { readonly kind: 'listening'; readonly port: number }
  | { readonly kind: 'stopped' | 'aborted'; readonly key: string };

const order: ServerOrder = JSON.parse(process.argv[2] ?? '');
const pool = new Pool({ connectionString: order.databaseUrl, max: 12 });
pool.on('error', () => {});
const say = (word: ServerWord): void => void process.send?.(word);

const stops = new Map<string, StopPoint>();
const waiting = new Map<string, () => void>();
process.on('message', (key) => waiting.get(String(key))?.());
// Without its parent nobody would end it.
process.on('disconnect', () => process.exit(0));

async function stopAt(point: StopPoint, key: string): Promise<void> {
  if (stops.get(key) !== point) return;
  const { promise, resolve } = Promise.withResolvers<void>();
  waiting.set(key, resolve);
  say({ kind: 'stopped', key });
  await promise;
}

/** The pool, with two places at which a statement has been executed and is not committed. */
const database: Queryable = {
  async query<R extends object>(text: string, values: unknown[]) {
    const point = text.includes('idempotency_claim(') ? 'beforeClaimCommit' : 'beforeAnswerCommit';
    const key = String(values[2]);
    if (stops.get(key) !== point || (point === 'beforeAnswerCommit' && !text.includes('SET state')))
      return pool.query<R>(text, values);
    const client = await pool.connect();
    await client.query('BEGIN');
    const result = await client.query<R>(text, values);
    await stopAt(point, key);
    await client.query('COMMIT');
    client.release();
    return result;
  },
};

const app = Fastify({ forceCloseConnections: true });
app.addHook('onRequest', async ({ headers }) => {
  const point = headers['x-stop-at'];
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- sent by the test
  if (point !== undefined) stops.set(String(headers['idempotency-key']), point as StopPoint);
});
await app.register(idempotency, {
  store: new PostgresIdempotencyStore(database),
  principal: () => 'tenant',
  policyUrl: 'https://example.test/idempotency',
  leaseMs: order.leaseMs,
});
const keyOf = (request: FastifyRequest): string => request.idempotency?.key ?? '';
app.addHook('preHandler', (request) => stopAt('afterClaim', keyOf(request)));
app.addHook('onSend', async (request, _reply, payload) => {
  const key = keyOf(request);
  await stopAt('afterAnswerCommit', key);
  if (stops.get(key) !== 'inReply' || typeof payload !== 'string') return payload;
  return Readable.from(
    (async function* halves() {
      yield payload.slice(0, payload.length / 2);
      await stopAt('inReply', key);
      yield payload.slice(payload.length / 2);
    })(),
  );
});

// Its effect has a key of its own, in the same database here; elsewhere it would be at a payment provider.
const ONCE = 'INSERT INTO effects (name, once) VALUES ($1, $1) ON CONFLICT DO NOTHING';
const AGAIN = 'INSERT INTO effects (name) VALUES ($1)';
for (const takeover of ['rerun', 'conflict'] as const) {
  app.post(`/${takeover}`, { config: { idempotency: { takeover } } }, async (request, reply) => {
    const key = keyOf(request);
    request.idempotency?.signal.addEventListener('abort', () => say({ kind: 'aborted', key }));
    await pool.query('INSERT INTO runs (name) VALUES ($1)', [key]);
    await stopAt('inHandler', key);
    await pool.query(takeover === 'rerun' ? ONCE : AGAIN, [key]);
    await stopAt('afterEffect', key);
    return reply
      .code(201)
      .header('Location', `/effects/${key}`)
      .send({ pid: process.pid, takenOver: request.idempotency?.takenOver });
  });
}
await app.listen({ host: '127.0.0.1', port: 0 });
say({ kind: 'listening', port: portOf(app.server.address()) });
