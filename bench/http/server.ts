// One contestant as a process of its own: prints its address as JSON, and ends at SIGTERM when its requests are over.
import { Command, Option } from '@commander-js/extra-typings';
import { IdempotencyError, Idempotency } from '@node-idempotency/core';
import { MemoryStorageAdapter } from '@node-idempotency/storage-adapter-memory';
import express from 'express';
import {
  getSharedIdempotencyService,
  idempotency as expressIdempotency,
} from 'express-idempotency';
import Fastify, { type FastifyInstance, type FastifyRequest } from 'fastify';
import { once } from 'node:events';
import http from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { Pool } from 'pg';
import {
  idempotency,
  PostgresIdempotencyStore,
  prepared,
  type IdempotencyStore,
} from '../../src/http/idempotency/index.ts';
import { portOf } from '../../src/listening.ts';
import type { Framework, Layer } from './contestants.ts';
import { MapStore } from './map-store.ts';

/** What a handler takes where several requests must meet in it. */
const SLOW_MS = 50;
const ANSWER = { id: 'ch_1', status: 'succeeded', amount: 4200 };

const options = new Command('server')
  .addOption(
    new Option('--framework <name>').choices(['fastify', 'express'] as const).makeOptionMandatory(),
  )
  .addOption(
    new Option('--layer <name>')
      .choices([
        'none',
        'chargeonce',
        'chargeonce-memory',
        'express-idempotency',
        'node-idempotency',
      ] as const)
      .makeOptionMandatory(),
  )
  .option('--database <url>')
  .option('--pool <n>', 'connections to PostgreSQL', Number, 16)
  .parse()
  .opts();

let runs = 0;
const pool =
  options.layer === 'chargeonce'
    ? new Pool({ connectionString: options.database, max: options.pool })
    : null;
pool?.on('error', () => {});
const server = await listening(options.framework, options.layer);
process.stdout.write(
  `${JSON.stringify({ url: `http://127.0.0.1:${portOf(server.address())}`, pid: process.pid })}\n`,
);
await once(process, 'SIGTERM');
server.close();
server.closeIdleConnections();
await once(server, 'close');
await pool?.end();

async function listening(framework: Framework, layer: Layer): Promise<http.Server> {
  if (framework === 'express') {
    const server = http.createServer(expressApp(layer));
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return server;
  }
  const app = Fastify();
  await addLayer(app, layer);
  app.get('/runs', async () => ({ runs }));
  app.post('/charges', async (_request, reply) => {
    runs += 1;
    return reply.code(201).send(ANSWER);
  });
  app.post('/slow', async (_request, reply) => {
    runs += 1;
    await sleep(SLOW_MS);
    return reply.code(201).send(ANSWER);
  });
  await app.listen({ host: '127.0.0.1', port: 0 });
  return app.server;
}

async function addLayer(app: FastifyInstance, layer: Layer): Promise<void> {
  switch (layer) {
    case 'none':
      return;
    case 'chargeonce':
      if (pool !== null) await addOurs(app, new PostgresIdempotencyStore(prepared(pool)));
      return;
    case 'chargeonce-memory':
      return addOurs(app, new MapStore());
    case 'node-idempotency':
      return addNodeIdempotency(app);
    case 'express-idempotency':
      throw new TypeError('express-idempotency is for express');
  }
}

async function addOurs(app: FastifyInstance, store: IdempotencyStore): Promise<void> {
  await app.register(idempotency, {
    store,
    principal: () => 'bench',
    policyUrl: 'https://example.test/idempotency',
  });
}

/** `@node-idempotency/core` in the two hooks in which its own plugin for Fastify 4 calls it. */
function addNodeIdempotency(app: FastifyInstance): void {
  const layer = new Idempotency(new MemoryStorageAdapter(), { enforceIdempotency: true });
  app.addHook('preHandler', async (request, reply) => {
    if (request.method === 'GET') return undefined;
    try {
      const stored = await layer.onRequest<string, string>(asItsRequest(request));
      if (stored === undefined) return undefined;
      reply.code(Number(stored.additional?.['statusCode'] ?? 200));
      reply.header('content-type', stored.additional?.['content-type']);
      reply.header('idempotent-replayed', 'true');
      return reply.send(stored.body ?? stored.error);
    } catch (error) {
      if (error instanceof IdempotencyError) return reply.code(409).send(error);
      throw error;
    }
  });
  app.addHook('onSend', async (request, reply, payload) => {
    if (request.method === 'GET') return;
    const additional = {
      statusCode: reply.statusCode,
      'content-type': reply.getHeader('content-type'),
    };
    await layer.onResponse(asItsRequest(request), {
      additional,
      ...(reply.statusCode < 400 ? { body: payload } : { error: payload }),
    });
  });
}

function asItsRequest({ headers, body, url: path, method }: FastifyRequest) {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the JSON object that the load sends
  return { headers, body: body as Record<string, unknown>, path, method };
}

function expressApp(layer: Layer): express.Express {
  if (layer !== 'none' && layer !== 'express-idempotency')
    throw new TypeError(`${layer} is not for express`);
  const app = express();
  app.use(express.json());
  app.get('/runs', (_request, response) => void response.json({ runs }));
  if (layer === 'express-idempotency') app.use(expressIdempotency());
  // It calls the handler also where it has answered already, and has the handler ask.
  const isRepeat = (request: express.Request): boolean =>
    layer === 'express-idempotency' && getSharedIdempotencyService().isHit(request);
  app.post('/charges', (request, response) => {
    if (isRepeat(request)) return;
    runs += 1;
    response.status(201).json(ANSWER);
  });
  app.post('/slow', async (request, response) => {
    if (isRepeat(request)) return;
    runs += 1;
    await sleep(SLOW_MS);
    response.status(201).json(ANSWER);
  });
  app.use(answerError);
  return app;
}

/** With the status that the layer has set; express would write each of them to stderr. */
// oxlint-disable-next-line max-params -- express tells handlers of errors by their four parameters
function answerError(
  error: Error,
  _request: express.Request,
  response: express.Response,
  _next: express.NextFunction,
): void {
  response.status(Math.max(400, response.statusCode)).json({ error: error.message });
}
