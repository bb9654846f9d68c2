import Fastify, { type FastifyInstance, type FastifyServerOptions } from 'fastify';

/** Headers that take longer come from nobody who means well. */
const HEADERS_TIMEOUT_MS = 10_000;
/** A whole request, body included; Stripe gives up after about as long. */
const REQUEST_TIMEOUT_MS = 20_000;
const KEEP_ALIVE_MS = 10_000;
const REQUESTS_PER_SOCKET = 1_000;

export interface AppLimits {
  /** largest body of any route */
  readonly bodyBytes: number;
  /** a socket on which nothing moves for so long is cut; milliseconds */
  readonly socketTimeoutMs: number;
  readonly sockets: number;
  readonly routerOptions?: NonNullable<FastifyServerOptions['routerOptions']>;
  /** answers for a path that comes to no route, since it cannot be read */
  readonly frameworkErrors?: NonNullable<FastifyServerOptions['frameworkErrors']>;
}

/** A Fastify application without routes: time-outs and limits on everything, no logger, nothing cached. Not listening yet. */
export function bareApp(limits: AppLimits): FastifyInstance {
  const { routerOptions, frameworkErrors } = limits;
  const app = Fastify({
    logger: false,
    trustProxy: false,
    bodyLimit: limits.bodyBytes,
    connectionTimeout: limits.socketTimeoutMs,
    requestTimeout: REQUEST_TIMEOUT_MS,
    keepAliveTimeout: KEEP_ALIVE_MS,
    maxRequestsPerSocket: REQUESTS_PER_SOCKET,
    forceCloseConnections: 'idle',
    ...(routerOptions === undefined ? {} : { routerOptions }),
    ...(frameworkErrors === undefined ? {} : { frameworkErrors }),
    http: { headersTimeout: HEADERS_TIMEOUT_MS, connectionsCheckingInterval: 2_000 },
  });
  app.server.maxConnections = limits.sockets;
  let closing = false;
  app.addHook('preClose', async () => {
    closing = true;
  });
  app.addHook('onSend', async (_request, reply) => {
    // A kept socket would hold up the end until the client lets go of it.
    if (closing) reply.header('Connection', 'close');
    reply.headers({ 'Cache-Control': 'no-store', 'X-Content-Type-Options': 'nosniff' });
  });
  return app;
}
