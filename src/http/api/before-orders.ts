import { createHash } from 'node:crypto';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { temporalPlace } from '../../client/temporal-place.ts';
import { EnvironmentMismatch, requireEnvironment } from '../../db/environment.ts';
import type { ApiDeps } from './deps.ts';
import { problem } from './problems.ts';
import { readPollers } from './run-view.ts';

/** Longest wait for what Temporal is asked here. */
const ASK_TIMEOUT_MS = 3_000;

/**
 * A preHandler for routes that order something of Temporal: answers 503 while Temporal or the database is away, and 409
 * where the database belongs elsewhere. It stands before the handler, so its answers use up no Idempotency-Key.
 */
export function readyForOrders(deps: ApiDeps) {
  const wanted = { account: deps.account, liveMode: deps.mode === 'live' };
  return async (_request: FastifyRequest, reply: FastifyReply) => {
    const temporal = await reachTemporal(deps);
    if (temporal === null)
      return problem(reply, 'temporal-unavailable', {
        detail: 'Temporal does not answer, so nothing can be ordered now; nothing was done',
        retryAfterSeconds: 5,
      });
    try {
      await requireEnvironment(deps.db, { ...wanted, temporal });
    } catch (error) {
      if (error instanceof EnvironmentMismatch)
        return problem(reply, 'environment-mismatch', error.message);
      deps.log.error({ err: error }, 'the database did not say where it belongs');
      return problem(reply, 'database-unavailable', {
        detail: 'the database does not answer; nothing was done',
        retryAfterSeconds: 5,
      });
    }
    return undefined;
  };
}

/**
 * The preHandler of orders that a run has to answer: as {@link readyForOrders}, and 503 where no worker polls, since an
 * answer would not come and the order might be taken long after.
 */
export function readyForAnswers(deps: ApiDeps) {
  const ready = readyForOrders(deps);
  return async (request: FastifyRequest, reply: FastifyReply) => {
    const refused = await ready(request, reply);
    if (refused !== undefined) return refused;
    if ((await readPollers(deps)) !== false) return undefined;
    return problem(reply, 'no-worker', {
      detail: 'no worker polls for runs, so nobody would answer; nothing was done',
      retryAfterSeconds: 10,
    });
  };
}

/**
 * Whether an earlier try of this order may have been carried out, however long ago: then what stands against it now may
 * be a newer order.
 */
export function mayBeDone({ idempotency }: Pick<FastifyRequest, 'idempotency'>): boolean {
  return idempotency?.takenOver === true;
}

async function reachTemporal(deps: ApiDeps) {
  try {
    const { temporal } = await deps.temporal();
    return await temporal.withDeadline(Date.now() + ASK_TIMEOUT_MS, () =>
      temporalPlace(temporal.workflowService, temporal.options.namespace),
    );
  } catch (error) {
    deps.log.warn({ err: error }, 'Temporal cannot be reached');
    return null;
  }
}

/**
 * The id under which Temporal or the database keeps an order of this request: the same for every try of one
 * Idempotency-Key, whichever process has it; undefined for a request without a key. `about` tells the orders of one
 * request apart.
 */
export function orderIdOf(
  request: Pick<FastifyRequest, 'idempotency'>,
  about: readonly string[] = [],
): string | undefined {
  if (request.idempotency === null) return undefined;
  const { principal, key } = request.idempotency;
  const hash = createHash('sha256');
  for (const part of ['chargeonce api order', principal, key, ...about])
    hash.update(`${Buffer.byteLength(part)}:${part},`);
  return `api-${hash.digest('hex')}`;
}
