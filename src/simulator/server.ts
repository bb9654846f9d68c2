import { createServer } from 'node:http';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { performance } from 'node:perf_hooks';
import { authenticate } from './auth.ts';
import type { Caller } from './auth.ts';
import type { Control } from './control.ts';
import { ApiError } from './errors.ts';
import type { Faults } from './faults.ts';
import { newId, shortHash } from './ids.ts';
import type { Outcome, Pipeline } from './pipeline.ts';
import { errorReply } from './reply.ts';
import type { Reply } from './reply.ts';
import type { RequestLog } from './request-log.ts';
import { matchRoute } from './router.ts';

// Stripe publishes no limit; the largest legal request (50 metadata values of 500 characters, escaped) is far below.
const MAX_BODY_BYTES = 256 * 1024;
// Longer than clients keep an idle socket, so that it is they who close it.
const KEEP_ALIVE_MS = 75_000;
const HTML = Buffer.from('<html><body><h1>We are sorry, something went wrong</h1></body></html>');

/** A request that came to nothing. */
const NOTHING: Outcome = {
  reply: null,
  wire: 'whole',
  replayed: false,
  executed: false,
  rule: null,
};

export interface ServerDeps {
  readonly pipeline: Pipeline;
  readonly faults: Faults;
  readonly log: RequestLog;
  readonly control: Control;
  readonly now: () => number;
}

interface Arrival {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  readonly path: string;
  readonly query: string;
  readonly requestId: string;
  readonly endpoint: string;
  readonly startedMs: number;
}

/** The HTTP server: reads whole requests, lets the pipeline decide, and spoils the wire where a fault says so. */
export function createSimulatorServer(deps: ServerDeps): Server {
  const server = createServer({ keepAliveTimeout: KEEP_ALIVE_MS }, (req, res) => {
    serve(deps, req, res).catch((error: unknown) => {
      // Only a bug of the simulator comes here. It must not look like one of Stripe's answers.
      process.stderr.write(`simulator: ${error instanceof Error ? error.stack : String(error)}\n`);
      if (!res.headersSent) res.writeHead(599, 'Simulator Bug');
      res.end();
    });
  });
  return server;
}

async function serve(deps: ServerDeps, req: IncomingMessage, res: ServerResponse): Promise<void> {
  const url = req.url ?? '/';
  const mark = url.indexOf('?');
  const path = mark === -1 ? url : url.slice(0, mark);
  const query = mark === -1 ? '' : url.slice(mark + 1);
  if (path.startsWith('/_sim')) {
    const body = await readBody(req);
    await deps.control.handle({ req, res, path, query, body: body ?? Buffer.alloc(0) });
    return;
  }
  const endpoint = matchRoute(req.method ?? '', path)?.route.endpoint ?? 'unknown';
  const requestId = newId('req').slice(0, 18);
  const arrival = { req, res, path, query, requestId, endpoint, startedMs: performance.now() };
  deps.log.arrived(endpoint);
  const rule = deps.faults.pick({ endpoint, phase: 'head', metadata: () => ({}) });
  if (rule !== undefined) {
    req.socket.destroy();
    record(deps, arrival, { body: null, outcome: cut(rule) });
    return;
  }
  let body: Buffer | undefined;
  try {
    body = await readBody(req);
  } catch {
    // The client went away while sending: nothing was executed.
    record(deps, arrival, { body: null, outcome: cut(null) });
    return;
  }
  const outcome =
    body === undefined
      ? tooLarge()
      : await deps.pipeline.handle({
          method: req.method ?? '',
          path,
          query,
          headers: req.headers,
          body,
          requestId,
        });
  // Before the reply leaves: whoever has seen the reply finds the request in the log.
  record(deps, arrival, { body: body ?? null, outcome });
  send(arrival, outcome);
}

async function readBody(req: IncomingMessage): Promise<Buffer | undefined> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of req as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size <= MAX_BODY_BYTES) chunks.push(chunk);
  }
  return size > MAX_BODY_BYTES ? undefined : Buffer.concat(chunks);
}

function cut(rule: Outcome['rule']): Outcome {
  return { ...NOTHING, rule };
}

function tooLarge(): Outcome {
  const message = `Request body larger than ${MAX_BODY_BYTES} bytes.`;
  const error = new ApiError(413, { type: 'invalid_request_error', message });
  return { ...NOTHING, reply: errorReply(error) };
}

function send({ req, res, requestId }: Arrival, outcome: Outcome): void {
  const { reply } = outcome;
  if (reply === null) {
    // RST, not FIN: what a client sees when a machine dies or a load balancer drops a kept-alive connection.
    req.socket.resetAndDestroy();
    return;
  }
  const html = outcome.wire === 'html';
  const body = html ? HTML : reply.body;
  const headers = {
    'Content-Type': html ? 'text/html; charset=utf-8' : 'application/json',
    'Request-Id': requestId,
    'Content-Length': String(body.length),
    'Cache-Control': 'no-cache, no-store',
    ...reply.headers,
  };
  res.writeHead(reply.status, headers);
  switch (outcome.wire) {
    case 'truncated':
      res.write(body.subarray(0, Math.floor(body.length / 2)), () => req.socket.destroy());
      break;
    case 'double':
      res.end(body, () => req.socket.write(rawResponse(reply, headers)));
      break;
    case 'whole':
    case 'html':
      res.end(body);
      break;
  }
}

function rawResponse(reply: Reply, headers: Readonly<Record<string, string>>): Buffer {
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  return Buffer.concat([
    Buffer.from(`HTTP/1.1 ${reply.status} OK\r\n${lines.join('')}\r\n`),
    reply.body,
  ]);
}

function record(
  deps: ServerDeps,
  arrival: Arrival,
  { body, outcome }: { body: Buffer | null; outcome: Outcome },
): void {
  const { req } = arrival;
  const caller = callerOf(req);
  deps.log.add({
    at: new Date(deps.now()).toISOString(),
    account: caller?.account ?? null,
    livemode: caller?.livemode ?? null,
    endpoint: arrival.endpoint,
    method: req.method ?? '',
    path: arrival.path,
    idempotencyKey: req.headers['idempotency-key']?.toString() ?? null,
    attemptId: req.headers['x-attempt-id']?.toString() ?? null,
    bodyHash: body === null ? null : shortHash(body),
    requestId: arrival.requestId,
    status: outcome.reply?.status ?? 0,
    durationMs: Math.round((performance.now() - arrival.startedMs) * 10) / 10,
    replayed: outcome.replayed,
    executed: outcome.executed,
    fault: outcome.rule?.id ?? null,
    faultKind: outcome.rule?.kind ?? null,
  });
}

/** Whose request it is by its key, also when a fault kept the API from looking at it. */
function callerOf(req: IncomingMessage): Caller | null {
  try {
    return authenticate(req.headers, req.method ?? '');
  } catch {
    return null;
  }
}
