import rateLimit from '@fastify/rate-limit';
import type { FastifyInstance } from 'fastify';
import {
  serializerCompiler,
  validatorCompiler,
  type ZodTypeProvider,
} from 'fastify-type-provider-zod';
import { idempotency, type IdempotencyOptions } from '../idempotency/index.ts';
import type { HttpMetrics } from '../metrics.ts';
import { authenticate, type AuthDeps } from './auth.ts';
import type { ApiApp, ApiDeps } from './deps.ts';
import { registerRunEvents } from './events.ts';
import { POLICY_PAGE, timesOf } from './idempotency-rules.ts';
import { boundConcurrency, quota } from './limits.ts';
import { describeRoutes, registerDocs } from './openapi.ts';
import { registerPages } from './pages.ts';
import { answerErrors } from './problems.ts';
import { answerUnknown, refuseUnknownQueries, watchRoutes } from './unknown-routes.ts';
import { registerCustomers } from './routes/customers.ts';
import { registerImport } from './routes/import.ts';
import { registerMe } from './routes/me.ts';
import { registerReruns } from './routes/reruns.ts';
import { registerResolutions } from './routes/resolutions.ts';
import { registerRunOrders } from './routes/run-orders.ts';
import { registerRuns } from './routes/runs.ts';
import { registerSchedule } from './routes/schedule.ts';
import { registerStory } from './routes/story.ts';
import { registerVaultKeys } from './routes/vault-keys.ts';

/** What bounds callers of one server process. */
export interface ApiLimits {
  /** largest body of a route that does not say another one */
  readonly bodyBytes: number;
  /** wrong tokens from one address */
  readonly failuresPerMinute: number;
  /** requests of one name that reach a handler */
  readonly requestsPerMinute: number;
  readonly concurrentRequests: number;
  /** server-sent events, over all runs */
  readonly streams: number;
  /** how long a stream may be silent; milliseconds */
  readonly heartbeatMs: number;
}

const LIMITS: ApiLimits = {
  bodyBytes: 1024 * 1024,
  failuresPerMinute: 20,
  requestsPerMinute: 1_200,
  concurrentRequests: 128,
  streams: 64,
  // Proxies cut what is silent for a minute, and our own sockets after half of one.
  heartbeatMs: 15_000,
};

export interface ApiOptions extends ApiDeps {
  readonly limits?: Partial<ApiLimits>;
  readonly idempotency: Pick<IdempotencyOptions, 'store' | 'leaseMs' | 'retentionMs'>;
  readonly metrics: HttpMetrics;
}

/** One line for each resource. */
const ROUTES: readonly ((app: ApiApp, deps: ApiDeps) => void)[] = [
  registerMe,
  registerRuns,
  registerRunOrders,
  registerCustomers,
  registerStory,
  registerReruns,
  registerResolutions,
  registerImport,
  registerSchedule,
  registerVaultKeys,
];

/** The operator API under `/v1` and its documents. Its errors, tokens and limits are its own and reach no other route. */
export async function registerApi(app: FastifyInstance, options: ApiOptions): Promise<void> {
  const limits = { ...LIMITS, ...options.limits };
  const { db, log, metrics } = options;
  const auth = { db, log, failuresPerMinute: limits.failuresPerMinute };
  app.setValidatorCompiler(validatorCompiler);
  app.setSerializerCompiler(serializerCompiler);
  answerErrors(app, log);
  app.decorateRequest('caller', null);
  await app.register(rateLimit, { global: false, enableDraftSpec: true });
  await describeRoutes(app);
  await app.register(async (v1) => registerV1(v1, { ...options, limits, auth }), { prefix: '/v1' });
  await app.register(async (scraped) => {
    authenticate(scraped, auth);
    const config = { access: 'viewer' } as const;
    scraped.get('/metrics', { config, schema: { hide: true } }, async (_request, reply) => {
      const { contentType, text } = await metrics.render();
      return reply.type(contentType).send(text);
    });
  });
  registerPages(app, timesOf(options.idempotency));
  await registerDocs(app);
}

interface V1Options extends ApiOptions {
  readonly limits: ApiLimits;
  readonly auth: AuthDeps;
}

/** In this order a request passes: room, token and role, key, body, parameters, claim of the key, quota, handler. */
async function registerV1(v1: FastifyInstance, options: V1Options): Promise<void> {
  const { limits, metrics, log } = options;
  const known = watchRoutes(v1, limits.bodyBytes);
  refuseUnknownQueries(v1);
  v1.setNotFoundHandler((request, reply) => answerUnknown(known, request, reply));
  v1.removeContentTypeParser('text/plain');
  boundConcurrency(v1, limits.concurrentRequests);
  authenticate(v1, options.auth);
  await v1.register(idempotency, {
    ...options.idempotency,
    principal: (request) => request.caller?.name ?? null,
    policyUrl: POLICY_PAGE,
    onEvent: (event) => metrics.countIdempotency(event),
    onError: (error) => log.error({ err: error }, 'the store of Idempotency-Keys failed'),
  });
  v1.addHook('preHandler', quota(v1, limits.requestsPerMinute));
  const typed: ApiApp = v1.withTypeProvider<ZodTypeProvider>();
  for (const register of ROUTES) register(typed, options);
  registerRunEvents(typed, options, {
    streams: limits.streams,
    heartbeatMs: limits.heartbeatMs,
    onCount: (open) => metrics.showStreams(open),
  });
}
