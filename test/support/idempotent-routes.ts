// oxlint-disable oxc/no-async-endpoint-handlers -- Fastify waits for its handlers
import { Readable } from 'node:stream';
import type { FastifyInstance } from 'fastify';

export const STORED_BYTES = 8 * 1024;

export interface RouteState {
  /** counts a run of a handler and answers its number */
  readonly ran: () => number;
  /** what the slow handlers wait for */
  readonly opened: () => Promise<void>;
}

/** A route for each way in which a handler can answer. */
export function exampleRoutes(server: FastifyInstance, { ran, opened }: RouteState): void {
  server.addContentTypeParser('text/csv', (_request, payload, done) => done(null, payload));
  server.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) =>
    done(null, body),
  );
  server.post('/charges', async (request, reply) => {
    const number = ran();
    return reply
      .code(201)
      .header('Location', '/charges/1')
      .header('X-Secret', 'not for a repeat')
      .header('Set-Cookie', 'session=1')
      .send({ run: number, body: request.body });
  });
  server.post('/other', async () => ({ run: ran() }));
  server.put('/charges', async () => ({ run: ran() }));
  server.patch('/charges', async () => ({ run: ran() }));
  server.delete('/charges', async () => ({ run: ran() }));
  server.get('/charges', async () => ({ run: ran() }));
  server.post('/slow', async () => {
    const number = ran();
    await opened();
    return { run: number };
  });
  server.post('/throws', async () => {
    throw new Error(`broke at run ${ran()}`);
  });
  server.post('/refuses', async (_request, reply) => reply.code(402).send({ declined: ran() }));
  server.post('/away', async (_request, reply) =>
    reply.code(503).header('Retry-After', '7').send({ run: ran() }),
  );
  server.post<{ Params: { status: string } }>('/status/:status', async (request, reply) => {
    const number = ran();
    return reply.code(Number(request.params.status)).send({ run: number });
  });
  server.post('/nothing', async (_request, reply) => {
    ran();
    return reply.code(204).send();
  });
  server.post('/undefined', async () => {
    ran();
    await opened();
  });
  server.post('/stream', async (_request, reply) => {
    const number = ran();
    return reply.type('text/plain').send(Readable.from([`run ${number},`, ' in pieces']));
  });
  server.post('/broken-stream', async (_request, reply) => {
    ran();
    const broken = Readable.from(
      (async function* pieces() {
        yield 'half';
        throw new Error('the other half is gone');
      })(),
    );
    return reply.type('text/plain').send(broken);
  });
  server.post('/big', async (_request, reply) => {
    ran();
    return reply
      .code(201)
      .header('Location', '/big/1')
      .send({ text: 'x'.repeat(STORED_BYTES + 1) });
  });
  server.post('/big-stream', async (_request, reply) => {
    ran();
    return reply
      .type('text/plain')
      .send(Readable.from(['a'.repeat(STORED_BYTES), 'b'.repeat(STORED_BYTES)]));
  });
  server.post('/raw', async (_request, reply) => {
    const number = ran();
    reply.hijack();
    reply.raw.writeHead(201, { 'Content-Type': 'text/plain', Location: '/raw/1' });
    reply.raw.write(`run ${number},`);
    reply.raw.end(' raw');
  });
  server.post('/raw-later', (_request, reply) => {
    const number = ran();
    reply.hijack();
    setImmediate(() => reply.raw.end(`run ${number}`));
  });
  server.post(
    '/response',
    async () => new Response(`run ${ran()}`, { status: 202, headers: { location: '/r' } }),
  );
  server.post(
    '/validated',
    {
      schema: {
        body: {
          type: 'object',
          required: ['amount'],
          properties: { amount: { type: 'integer' } },
        },
      },
    },
    async () => ({ run: ran() }),
  );
  server.post('/secret', { config: { idempotency: { storeBody: false } } }, async (_r, reply) =>
    reply
      .code(201)
      .header('Location', '/secret/1')
      .send({ secret: `s${ran()}` }),
  );
  server.post(
    '/secret-refused',
    { config: { idempotency: { storeBody: false } } },
    async (_request, reply) => reply.code(400).send({ why: `run ${ran()} was refused` }),
  );
  server.post(
    '/keyed',
    { config: { idempotency: { takeover: 'rerun', neverStored: [503] } } },
    async (request, reply) => {
      const number = ran();
      const { takenOver } = request.idempotency ?? {};
      return reply.code(takenOver === true ? 200 : 503).send({ run: number, takenOver });
    },
  );
  server.post('/own', { config: { idempotency: false } }, async () => ({ run: ran() }));
  server.post('/optional', { config: { idempotency: { required: false } } }, async (request) => ({
    run: ran(),
    key: request.idempotency?.key ?? null,
  }));
  server.post('/callback', (_request, reply) => {
    const number = ran();
    void opened().then(() => reply.code(201).send({ run: number }));
  });
}
