import type { FastifyInstance } from 'fastify';
import { Gate } from '../gate.ts';
import { callerOf } from './auth.ts';
import { ApiProblem, problem } from './problems.ts';

const MINUTE_MS = 60_000;
/** More than a process can answer; beyond it even refusing a token costs too much. */
const PER_SECOND = 5_000;

/** Bounds the requests under way, before anything is read of them. Streams of events have a bound of their own. */
export function boundConcurrency(app: FastifyInstance, concurrent: number): void {
  const rate = { perSecond: PER_SECOND, burst: PER_SECOND };
  const gate = new Gate({ concurrent, ...rate }, () => performance.now());
  app.addHook('onRequest', async (request, reply) => {
    if (request.routeOptions.config.stream === true) return undefined;
    if (gate.enter() === 'in') {
      // Also comes when the client goes away in the middle of its body.
      reply.raw.once('close', () => gate.leave());
      return undefined;
    }
    return problem(reply, 'server-busy', {
      detail: 'this server has as many requests under way as it takes; nothing was done',
      retryAfterSeconds: 1,
    });
  });
}

/**
 * The preHandler that counts a request against the quota of its caller's name. Stands after the claim of the
 * Idempotency-Key: a stored response has been answered by then and uses none. Needs @fastify/rate-limit.
 */
export function quota(app: FastifyInstance, requestsPerMinute: number) {
  return app.rateLimit({
    max: requestsPerMinute,
    timeWindow: MINUTE_MS,
    keyGenerator: (request) => callerOf(request).name,
    errorResponseBuilder: (request, { ttl }) =>
      new ApiProblem('quota-exceeded', {
        detail: `${callerOf(request).name} has sent ${requestsPerMinute} requests within a minute; nothing was done`,
        retryAfterSeconds: Math.ceil(ttl / 1_000),
      }),
  });
}
