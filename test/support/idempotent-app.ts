import Fastify, { type FastifyInstance } from 'fastify';
import { randomUUID } from 'node:crypto';
import { Pool } from 'pg';
import {
  idempotency,
  PostgresIdempotencyStore,
  type IdempotencyEvent,
  type IdempotencyOptions,
  type IdempotencyStore,
} from '../../src/http/idempotency/index.ts';
import { portOf } from '../../src/listening.ts';
import { migratedDatabase } from './engine.ts';
import { call, type HttpAnswer, type HttpCall } from './http-client.ts';

/** The store in a database of its own; `pool` is for what a test wants to see or break. */
export async function postgresStore(): Promise<{
  readonly url: string;
  readonly pool: Pool;
  readonly store: PostgresIdempotencyStore;
  close(): Promise<void>;
}> {
  const url = await migratedDatabase();
  const pool = new Pool({ connectionString: url, max: 20 });
  pool.on('error', () => {});
  return { url, pool, store: new PostgresIdempotencyStore(pool), close: () => pool.end() };
}

export interface IdempotentApp {
  readonly url: string;
  readonly app: FastifyInstance;
  readonly events: IdempotencyEvent[];
  /** POST with a key, or whatever is asked */
  send(path: string, key: string | null, options?: HttpCall): Promise<HttpAnswer>;
  close(): Promise<void>;
}

/** An application with the plugin and the routes of the test, listening. The tenant is a header. */
export async function idempotentApp(
  store: IdempotencyStore,
  routes: (app: FastifyInstance) => void,
  options: Partial<IdempotencyOptions> = {},
): Promise<IdempotentApp> {
  const app = Fastify({ forceCloseConnections: true });
  const events: IdempotencyEvent[] = [];
  await app.register(idempotency, {
    store,
    principal: (request) => String(request.headers['x-tenant'] ?? 'tenant'),
    policyUrl: 'https://example.test/idempotency',
    onEvent: (event) => events.push(event),
    ...options,
  });
  routes(app);
  await app.listen({ host: '127.0.0.1', port: 0 });
  const url = `http://127.0.0.1:${portOf(app.server.address())}`;
  return {
    url,
    app,
    events,
    send: (path, key, { headers, ...rest } = {}) =>
      call(`${url}${path}`, {
        ...rest,
        headers: {
          'content-type': 'application/json',
          ...(key === null ? {} : { 'idempotency-key': key }),
          ...headers,
        },
        body: rest.body ?? '{}',
      }),
    close: () => app.close(),
  };
}

/** A key that no other test has. */
export const newKey = (): string => randomUUID();
