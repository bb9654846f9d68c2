import type { z } from 'zod';
import type { RunClient } from '../../../client.ts';
import { orderFailureOf } from '../../../client/order-failure.ts';
import { listRunCustomers } from '../../../db/run-customers.ts';
import { readRun } from '../../../db/runs.ts';
import type { RerunAnswer, RerunOrder } from '../../../domain/charge.ts';
import type { CustomerId } from '../../../domain/customer-id.ts';
import { parseCustomerId } from '../../../domain/customer-id.ts';
import { runWorkflowId, type RunRef, type SlotRef } from '../../../domain/ids.ts';
import { readyForOrders } from '../before-orders.ts';
import type { ApiApp, ApiDeps } from '../deps.ts';
import { KEYED } from '../keyed.ts';
import { cursorOf } from '../paging.ts';
import { ApiProblem } from '../problems.ts';
import { ANSWER_TIMEOUT_MS, giveRerun, RERUN_ANSWER, rerunOrderOf } from '../rerun-order.ts';
import { namespaceQuery, runParams, slotParams } from '../schemas/common.ts';
import { runCursorKey } from '../schemas/customers.ts';
import { rerunAnswer, rerunBody, rerunsAnswer, rerunsBody } from '../schemas/reruns.ts';
import { unknownText } from './runs.ts';

/** Below the ten that Temporal lets one run have open at once, so that another order has room beside it. */
const AT_ONCE = 5;
/** Nothing new is ordered after that: with the last answers it stays below the 30 s after which a silent socket is cut. */
const ORDERING_MS = 15_000;

const PROBLEMS = [
  'run-unknown',
  'order-refused',
  'run-not-answering',
  'environment-mismatch',
  'temporal-unavailable',
] as const;

/** Why the handler may run again: an order has the id of its Idempotency-Key, and the database answers an id once. */

/**
 * `POST …/customers/{customer}/rerun` and `POST …/reruns`: bill one customer again, or many. One Idempotency-Key is one
 * order per customer, executed once however often it comes; a charged slot is never charged again.
 */
export function registerReruns(app: ApiApp, deps: ApiDeps): void {
  registerOne(app, deps);
  registerMany(app, deps);
}

function registerOne(app: ApiApp, deps: ApiDeps): void {
  app.post(
    '/runs/:period/customers/:customer/rerun',
    {
      config: {
        access: 'operator',
        idempotency: KEYED,
        problems: [...PROBLEMS, 'customer-unknown', 'already-charged', 'nothing-due'],
      },
      schema: {
        tags: ['reruns'],
        summary: 'Bill one customer again: after a decline, a mended request, a new payment method',
        description:
          '202 for accepted and in_doubt: something follows. What ends here is a problem: already charged (409), nothing due (409), not in the plan (404).',
        params: slotParams,
        querystring: namespaceQuery,
        body: rerunBody,
        response: { 202: rerunAnswer },
      },
      preHandler: readyForOrders(deps),
    },
    async (request, reply) => {
      const { period, customer: customerId } = request.params;
      const slot = { period, namespace: request.query.namespace, customerId };
      await requireRun(deps, slot);
      const client = await deps.temporal();
      const order = rerunOrderOf(request, slot, request.body.reason);
      const answer = await giveRerun(client, order).catch((error: unknown) => {
        throw explained(deps, slot, error);
      });
      if (answer !== 'accepted' && answer !== 'inDoubt') throw endOf(answer, slot);
      return reply.code(202).send({ answer: RERUN_ANSWER[answer], request_id: order.requestId });
    },
  );
}

function registerMany(app: ApiApp, deps: ApiDeps): void {
  app.post(
    '/runs/:period/reruns',
    {
      config: { access: 'operator', idempotency: KEYED, problems: PROBLEMS },
      schema: {
        tags: ['reruns'],
        summary: 'Bill many customers again: by name, or everybody of an outcome',
        description:
          'Each customer has an answer of its own. At most 1,000 of one order; of a filter, next says how to go on. Whoever is not_ordered is named in an order after this one.',
        params: runParams,
        querystring: namespaceQuery,
        body: rerunsBody,
        response: { 202: rerunsAnswer },
      },
      preHandler: readyForOrders(deps),
    },
    async (request, reply) => {
      const run = { period: request.params.period, namespace: request.query.namespace };
      await requireRun(deps, run);
      const { customers, more } = await chosen(deps, run, request.body);
      const client = await deps.temporal();
      const results = await giveMany(
        deps,
        client,
        customers.map((customerId) =>
          rerunOrderOf(request, { ...run, customerId }, request.body.reason),
        ),
      );
      // Nobody answered at all: a problem says more than a list.
      const [first] = results;
      if (first?.answer === 'not_known') throw notAnswering(run);
      const { filter, after } = request.body;
      const next = filter === undefined ? null : nextOf(results, { more, after: after?.[1] ?? '' });
      // Whom a filter has not come to is found by next.
      const data = filter === undefined ? results : results.filter(wasOrdered);
      return reply.code(202).send({ data, counts: countsOf(results), next });
    },
  );
}

async function requireRun({ db }: ApiDeps, run: RunRef): Promise<void> {
  if ((await readRun(db, run)) === null) throw new ApiProblem('run-unknown', unknownText(run));
}

/** What an answer after which nothing follows is told as. */
function endOf(
  answer: Exclude<RerunAnswer, 'accepted' | 'inDoubt'>,
  { customerId, period, namespace }: SlotRef,
): ApiProblem {
  const state = RERUN_ANSWER[answer];
  switch (answer) {
    case 'alreadyCharged':
      return new ApiProblem('already-charged', {
        detail: `${customerId} is charged for ${period} (${namespace}) already: nothing was sent`,
        state,
      });
    case 'nothingDue':
      return new ApiProblem('nothing-due', {
        detail: `${customerId} has nothing to charge: the amount is zero, or there is no payment method (import one first)`,
        state,
      });
    case 'unknownCustomer':
      return new ApiProblem(
        'customer-unknown',
        `${customerId} is not in the plan of ${period} (${namespace})`,
      );
  }
}

/** The problem that a failed order is answered with. */
function explained(deps: ApiDeps, run: RunRef, error: unknown): unknown {
  const failure = orderFailureOf(error);
  if (failure === null) return error;
  if (failure.kind === 'refused') return new ApiProblem('order-refused', failure.said);
  deps.log.warn({ err: error, run: runWorkflowId(run) }, 'a run did not answer a rerun');
  return notAnswering(run);
}

function notAnswering(run: RunRef): ApiProblem {
  return new ApiProblem(
    'run-not-answering',
    `${runWorkflowId(run)} did not answer within ${ANSWER_TIMEOUT_MS / 1000} s: does a worker poll? The customer's story shows whether the order was taken`,
  );
}

/** Whom an order means, and whether the filter fits more behind them. */
async function chosen(
  { db }: ApiDeps,
  run: RunRef,
  body: z.output<typeof rerunsBody>,
): Promise<{ readonly customers: readonly CustomerId[]; readonly more: boolean }> {
  const { customers, filter, limit, after } = body;
  if (filter === undefined) return { customers: [...new Set(customers)], more: false };
  const page = await listRunCustomers(db, run, {
    outcome: filter.outcome,
    reason: filter.reason ?? null,
    limit,
    after: after?.[1] ?? '',
  });
  const ids = page.customers.flatMap(({ customerId }) => {
    const parsed = parseCustomerId(customerId);
    return parsed.ok ? [parsed.customerId] : [];
  });
  return { customers: ids, more: page.next !== null };
}

type Result = z.input<typeof rerunsAnswer>['data'][number];

/**
 * Gives each order, a few at a time, until the time is up or the run falls silent; what was not begun with is answered
 * `not_ordered`. In the order of the customers.
 */
async function giveMany(
  deps: ApiDeps,
  client: RunClient,
  orders: readonly RerunOrder[],
): Promise<Result[]> {
  const results: (Result | undefined)[] = orders.map(() => undefined);
  const stopAtMs = performance.now() + ORDERING_MS;
  let silent = false;
  const upcoming = orders.entries();
  const work = async (): Promise<void> => {
    for (const [i, order] of upcoming) {
      if (silent || performance.now() > stopAtMs) return;
      const result = await resultOf(deps, client, order);
      results[i] = result;
      if (result.answer === 'not_known' || result.answer === 'not_ordered') silent = true;
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return orders.map(
    (order, i) => results[i] ?? shown(order, 'not_ordered', 'order it again, after this one'),
  );
}

async function resultOf(deps: ApiDeps, client: RunClient, order: RerunOrder): Promise<Result> {
  try {
    return shown(order, RERUN_ANSWER[await giveRerun(client, order)], null);
  } catch (error) {
    const failure = orderFailureOf(error);
    if (failure?.kind === 'refused') return shown(order, 'refused', failure.said);
    if (failure?.kind === 'busy')
      return shown(order, 'not_ordered', 'the run has too many orders to answer');
    // Of one among many: the others have their answers, which must not be lost with it.
    deps.log.warn({ err: error, run: runWorkflowId(order) }, 'a run did not answer a rerun');
    return shown(order, 'not_known', 'the run did not answer; the story shows what became of it');
  }
}

function shown(order: RerunOrder, answer: Result['answer'], detail: string | null): Result {
  return { customer_id: order.customerId, answer, request_id: order.requestId, detail };
}

/** A filter goes on before the first that was not begun with; where that is the very first, where this order began. */
function nextOf(
  results: readonly Result[],
  { more, after }: { readonly more: boolean; readonly after: string },
): string | null {
  const open = results.findIndex((result) => !wasOrdered(result));
  if (open === -1 && !more) return null;
  const last = results.at(open === -1 ? -1 : Math.max(open - 1, 0));
  return cursorOf(runCursorKey(open === 0 ? after : (last?.customer_id ?? after)));
}

function wasOrdered({ answer }: Result): boolean {
  return answer !== 'not_ordered';
}

function countsOf(results: readonly Result[]): Partial<Record<Result['answer'], number>> {
  const counts: Partial<Record<Result['answer'], number>> = {};
  for (const { answer } of results) counts[answer] = (counts[answer] ?? 0) + 1;
  return counts;
}
