import Fastify, { type FastifyError, type FastifyInstance } from 'fastify';
import type { Log } from '../log.ts';
import { refuse } from './refuse.ts';
import { registerHealth, type HealthDeps } from './routes/health.ts';
import { registerStripeWebhook, type StripeWebhookDeps } from './routes/stripe-webhook.ts';

export interface AppDeps extends HealthDeps {
  readonly log: Log;
  readonly stripeWebhook: Omit<StripeWebhookDeps, 'log'>;
}

/** Headers that take longer come from nobody who means well. */
const HEADERS_TIMEOUT_MS = 10_000;
/** A whole request, body included; Stripe gives up after about as long. */
const REQUEST_TIMEOUT_MS = 20_000;
/** A socket on which nothing moves. */
const SOCKET_TIMEOUT_MS = 30_000;
const KEEP_ALIVE_MS = 10_000;
const REQUESTS_PER_SOCKET = 1_000;
const SOCKETS = 512;
/** Largest body of any route (docs/security.md); an event of a payment has a few KiB. */
export const BODY_LIMIT_BYTES = 256 * 1024;

/**
 * The HTTP application, not listening yet. Errors say no more than their status: what went wrong is in
 * the log. Whatever is not decided otherwise is refused.
 */
export function buildApp(deps: AppDeps): FastifyInstance {
  const app = Fastify({
    logger: false,
    trustProxy: false,
    bodyLimit: BODY_LIMIT_BYTES,
    connectionTimeout: SOCKET_TIMEOUT_MS,
    requestTimeout: REQUEST_TIMEOUT_MS,
    keepAliveTimeout: KEEP_ALIVE_MS,
    maxRequestsPerSocket: REQUESTS_PER_SOCKET,
    forceCloseConnections: 'idle',
    http: { headersTimeout: HEADERS_TIMEOUT_MS, connectionsCheckingInterval: 2_000 },
  });
  app.server.maxConnections = SOCKETS;
  let closing = false;
  app.addHook('preClose', async () => {
    closing = true;
  });
  app.addHook('onSend', async (_request, reply) => {
    // A kept socket would hold up the end until the client lets go of it.
    if (closing) reply.header('Connection', 'close');
    reply.headers({ 'Cache-Control': 'no-store', 'X-Content-Type-Options': 'nosniff' });
  });
  app.setNotFoundHandler((_request, reply) => refuse(reply, 404));
  app.setErrorHandler((error: FastifyError, request, reply) => {
    const status = error.statusCode ?? 500;
    if (status < 400 || status >= 500) {
      deps.log.error({ err: error, route: request.routeOptions.url }, 'a request failed');
    }
    return refuse(reply, status < 400 ? 500 : status);
  });
  registerHealth(app, deps);
  void app.register(registerStripeWebhook, { ...deps.stripeWebhook, log: deps.log });
  return app;
}
