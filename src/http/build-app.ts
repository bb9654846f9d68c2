import type { FastifyError, FastifyInstance } from 'fastify';
import { bareApp } from '../bare-app.ts';
import type { Log } from '../log.ts';
import { registerApi, type ApiOptions } from './api/register-api.ts';
import { answerUnreadablePath } from './api/unknown-routes.ts';
import { refuse } from './refuse.ts';
import { registerHealth, type HealthDeps } from './routes/health.ts';
import { registerStripeWebhook, type StripeWebhookDeps } from './routes/stripe-webhook.ts';

export interface AppDeps extends HealthDeps {
  readonly log: Log;
  readonly stripeWebhook: Omit<StripeWebhookDeps, 'log'>;
  /** absent: webhooks and health only */
  readonly api?: ApiOptions;
}

/** A socket on which nothing moves. */
const SOCKET_TIMEOUT_MS = 30_000;
const SOCKETS = 512;
/** Largest body of a route that has no other limit (docs/security.md); an event of a payment has a few KiB. */
export const BODY_LIMIT_BYTES = 256 * 1024;
/** Ids, periods and names; the longest is a customer's, 64 characters. */
const MAX_PARAM_LENGTH = 200;

/**
 * The HTTP application, not listening yet. Errors say no more than their status: what went wrong is in
 * the log. Whatever is not decided otherwise is refused.
 */
export function buildApp(deps: AppDeps): FastifyInstance {
  const app = bareApp({
    bodyBytes: BODY_LIMIT_BYTES,
    socketTimeoutMs: SOCKET_TIMEOUT_MS,
    sockets: SOCKETS,
    routerOptions: { maxParamLength: MAX_PARAM_LENGTH },
    frameworkErrors: ({ code }, request, reply) => {
      if (deps.api !== undefined && request.url.startsWith('/v1/'))
        answerUnreadablePath(code, reply);
      else refuse(reply, 400);
    },
  });
  app.setNotFoundHandler((_request, reply) => refuse(reply, 404));
  app.setErrorHandler((error: FastifyError, request, reply) => {
    const status = error.statusCode ?? 500;
    if (status < 400 || status >= 500) {
      deps.log.error({ err: error, route: request.routeOptions.url }, 'a request failed');
    }
    return refuse(reply, status < 400 ? 500 : status);
  });
  deps.api?.metrics.watch(app);
  registerHealth(app, deps);
  void app.register(registerStripeWebhook, { ...deps.stripeWebhook, log: deps.log });
  if (deps.api !== undefined) void app.register(registerApi, deps.api);
  return app;
}
