import type { FastifyRequest } from 'fastify';
import type { RunClient } from '../../../client.ts';
import { orderFailureOf } from '../../../client/order-failure.ts';
import { readRun } from '../../../db/runs.ts';
import { runWorkflowId, type RunRef } from '../../../domain/ids.ts';
import { callerOf } from '../auth.ts';
import { orderIdOf, readyForAnswers } from '../before-orders.ts';
import type { ApiApp, ApiDeps } from '../deps.ts';
import { KEYED } from '../keyed.ts';
import { ApiProblem } from '../problems.ts';
import { namespaceQuery, orderBody, runParams } from '../schemas/common.ts';
import { orderAnswer } from '../schemas/runs.ts';
import { unknownText } from './runs.ts';

const SUMMARIES = {
  pause: 'Stop new claims; charges in flight finish',
  resume: 'Go on with a paused run',
  stop: 'End a run with its counts; charges in flight finish',
} as const;

type Order = keyof typeof SUMMARIES;

/** A worker has to answer for the run; without one nothing would come. */
const ANSWER_TIMEOUT_MS = 10_000;

/** `POST /v1/runs/{period}/pause|resume|stop`: orders to a run under way, each with who and why. */
export function registerRunOrders(app: ApiApp, deps: ApiDeps): void {
  for (const order of ['pause', 'resume', 'stop'] as const) {
    app.post(
      `/runs/:period/${order}`,
      {
        // Temporal takes the order of one Idempotency-Key once.
        config: {
          access: 'operator',
          idempotency: KEYED,
          problems: [
            'run-unknown',
            'run-not-under-way',
            'order-refused',
            'no-worker',
            'run-not-answering',
            'environment-mismatch',
            'temporal-unavailable',
          ],
        },
        schema: {
          tags: ['runs'],
          summary: SUMMARIES[order],
          params: runParams,
          querystring: namespaceQuery,
          body: orderBody,
          response: { 200: orderAnswer },
        },
        preHandler: readyForAnswers(deps),
      },
      async (request) => {
        const run = { period: request.params.period, namespace: request.query.namespace };
        const { reason } = request.body;
        const fires = await give(deps, { run, order, reason, request });
        return { ...run, order, charges_to_fire: fires };
      },
    );
  }
}

interface GivenOrder {
  readonly run: RunRef;
  readonly order: Order;
  readonly reason: string;
  readonly request: FastifyRequest;
}

/** Gives the order to the run; of a resume, how many charges may follow. The run itself logs who and why. */
async function give(deps: ApiDeps, given: GivenOrder): Promise<number | null> {
  const { run, order, reason, request } = given;
  const client: RunClient = await deps.temporal();
  const orderId = orderIdOf(request);
  const message = {
    operator: callerOf(request).name,
    reason,
    ...(orderId === undefined ? {} : { orderId }),
  };
  try {
    return await client.temporal.withDeadline(Date.now() + ANSWER_TIMEOUT_MS, async () => {
      if (order === 'resume') return (await client.resume(run, message)).chargesToFire;
      await client[order](run, message);
      return null;
    });
  } catch (error) {
    throw await explained(deps, { run, order, error });
  }
}

async function explained(
  deps: ApiDeps,
  { run, order, error }: { run: RunRef; order: Order; error: unknown },
): Promise<unknown> {
  const failure = orderFailureOf(error);
  if (failure === null) return error;
  if (failure.kind === 'notFound') {
    const planned = await readRun(deps.db, run);
    if (planned === null) return new ApiProblem('run-unknown', unknownText(run));
    const { state } = planned;
    return new ApiProblem('run-not-under-way', {
      detail: `${runWorkflowId(run)} is ${state}: there is nothing to ${order}`,
      state,
    });
  }
  if (failure.kind === 'refused') return new ApiProblem('order-refused', failure.said);
  deps.log.warn({ err: error, run: runWorkflowId(run) }, 'a run did not answer an order');
  return new ApiProblem(
    'run-not-answering',
    `${runWorkflowId(run)} did not answer within ${ANSWER_TIMEOUT_MS / 1000} s: does a worker poll? GET /v1/runs/${run.period} shows whether the order was taken`,
  );
}
