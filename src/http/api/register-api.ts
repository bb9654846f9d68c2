import rateLimit from '@fastify/rate-limit';
import type { FastifyInstance } from 'fastify';
import {
  serializerCompiler,
  validatorCompiler,
  type ZodTypeProvider,
} from 'fastify-type-provider-zod';
import { authenticate } from './auth.ts';
import type { ApiApp, ApiDeps } from './deps.ts';
import { answerErrors } from './problems.ts';
import { registerMe } from './routes/me.ts';
import { registerRunOrders } from './routes/run-orders.ts';
import { registerRuns } from './routes/runs.ts';

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
}

const LIMITS: ApiLimits = {
  bodyBytes: 1024 * 1024,
  failuresPerMinute: 20,
  requestsPerMinute: 1_200,
  concurrentRequests: 128,
  streams: 64,
};

export interface ApiOptions extends ApiDeps {
  readonly limits?: Partial<ApiLimits>;
}

/** One line for each resource. */
const ROUTES: readonly ((app: ApiApp, deps: ApiDeps) => void)[] = [
  registerMe,
  registerRuns,
  registerRunOrders,
];

/** The operator API under `/v1` and its documents. Its errors, tokens and limits are its own and reach no other route. */
export async function registerApi(app: FastifyInstance, options: ApiOptions): Promise<void> {
  const limits = { ...LIMITS, ...options.limits };
  const { db, log } = options;
  app.setValidatorCompiler(validatorCompiler);
  app.setSerializerCompiler(serializerCompiler);
  answerErrors(app, log);
  app.decorateRequest('caller', null);
  await app.register(rateLimit, { global: false });
  await app.register(
    async (v1) => {
      v1.addHook('onRoute', (route) => {
        route.bodyLimit ??= limits.bodyBytes;
      });
      v1.removeContentTypeParser('text/plain');
      authenticate(v1, { db, log, failuresPerMinute: limits.failuresPerMinute });
      const typed: ApiApp = v1.withTypeProvider<ZodTypeProvider>();
      for (const register of ROUTES) register(typed, options);
    },
    { prefix: '/v1' },
  );
}
