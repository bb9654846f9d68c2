import type { z } from 'zod';
import type { StartAnswer } from '../../../client.ts';
import { writeAuditEntry } from '../../../db/audit-log.ts';
import { listRuns, type ListedRun } from '../../../db/run-list.ts';
import { readReasons } from '../../../db/run-summary.ts';
import { assertNever } from '../../../domain/assert-never.ts';
import type { RunRef } from '../../../domain/ids.ts';
import { startPeriod } from '../../../start-run.ts';
import { callerOf } from '../auth.ts';
import { mayBeDone, readyForOrders } from '../before-orders.ts';
import type { ApiApp, ApiDeps } from '../deps.ts';
import { KEYED } from '../keyed.ts';
import { toPage } from '../paging.ts';
import { ApiProblem, problem } from '../problems.ts';
import { readPollers, readProgress, workflowUrl } from '../run-view.ts';
import { namespaceQuery, runParams } from '../schemas/common.ts';
import {
  runAnswer,
  runList,
  runListQuery,
  startAnswer,
  startBody,
  type ListedRunAnswer,
} from '../schemas/runs.ts';

const TAGS = ['runs'];

/** `/v1/runs`: start the run of a period, list runs, show one. */
export function registerRuns(app: ApiApp, deps: ApiDeps): void {
  registerStart(app, deps);
  app.get(
    '/runs',
    {
      config: { access: 'viewer' },
      schema: {
        tags: TAGS,
        summary: 'List runs, the one planned last first',
        querystring: runListQuery,
        response: { 200: runList },
      },
    },
    async (request) => {
      const { limit, after, namespace } = request.query;
      const rows = await listRuns(deps.db, { namespace, after, limit: limit + 1 });
      const keyOf = (run: ListedRun) => [run.plannedMicros, run.namespace, run.period];
      const { data, next } = toPage(rows, { limit, keyOf, show: listed });
      return { data: [...data], next };
    },
  );
  app.get(
    '/runs/:period',
    {
      config: { access: 'viewer', problems: ['run-unknown'] },
      schema: {
        tags: TAGS,
        summary: 'Show how a run stands',
        params: runParams,
        querystring: namespaceQuery,
        response: { 200: runAnswer },
      },
    },
    async (request, reply) => {
      const run = { period: request.params.period, namespace: request.query.namespace };
      const progress = await readProgress(deps, run);
      if (progress === null) return problem(reply, 'run-unknown', unknownText(run));
      const reasons = await readReasons(deps.db, run);
      return {
        ...progress,
        reasons: [...reasons],
        workflow_url: workflowUrl(deps, run),
        pollers: await readPollers(deps),
      };
    },
  );
}

/** What a 404 of a run says. */
export function unknownText({ period, namespace }: RunRef): string {
  return `no run of ${period} (${namespace}) was started here; POST /v1/runs starts it`;
}

const RESULTS = {
  started: 'started',
  alreadyRunning: 'already_running',
  completedBefore: 'completed_before',
} as const;

function registerStart(app: ApiApp, deps: ApiDeps): void {
  app.post(
    '/runs',
    {
      // Temporal has one workflow of a period, so running the handler again starts nothing twice; nor does it go on twice.
      config: {
        access: 'operator',
        idempotency: KEYED,
        problems: [
          'run-stopped',
          'no-customers',
          'run-of-another-database',
          'environment-mismatch',
          'temporal-unavailable',
        ],
      },
      schema: {
        tags: TAGS,
        summary: 'Start the run of a period, or attach to the one under way',
        description:
          'Customers are charged at most once per period, however often and from wherever this is sent. Location leads to the run.',
        body: startBody,
        response: { 202: startAnswer },
      },
      preHandler: readyForOrders(deps),
    },
    async (request, reply) => {
      const { period, namespace } = request.body;
      const run = { period, namespace };
      const order = request.body;
      // An earlier try may have let it go on, and somebody have stopped it since.
      const goesOn = order.go_on_after_stop && !mayBeDone(request);
      const answer = await start(
        deps,
        { ...order, go_on_after_stop: goesOn },
        callerOf(request).name,
      );
      return reply
        .code(202)
        .header('Location', locationOf(run))
        .send({
          ...run,
          workflow_id: answer.workflowId,
          result: RESULTS[answer.kind],
          workflow_url: workflowUrl(deps, run),
        });
    },
  );
}

/** Starts the run and logs who ordered it and why. Throws the problem that stands in the way. */
async function start(
  deps: ApiDeps,
  order: z.output<typeof startBody>,
  startedBy: string,
): Promise<StartAnswer> {
  const { period, namespace, reason, go_on_after_stop: goOnAfterStop } = order;
  const run = { period, namespace };
  await writeAuditEntry(deps.db, {
    actor: startedBy,
    action: 'run.start_ordered',
    ...run,
    ...(reason === undefined ? {} : { reason }),
    details: { goOnAfterStop },
  });
  const world = { db: deps.db, client: deps.temporal };
  const outcome = await startPeriod(world, { run, startedBy, goOnAfterStop });
  switch (outcome.kind) {
    case 'started':
    case 'alreadyRunning':
    case 'completedBefore':
      return { kind: outcome.kind, workflowId: outcome.workflowId };
    case 'stopped':
      throw new ApiProblem('run-stopped', {
        detail: `${period} (${namespace}) was stopped; it goes on with {"go_on_after_stop": true}, a reason and a new Idempotency-Key`,
        state: 'stopped',
      });
    case 'noCustomers':
      throw new ApiProblem('no-customers', 'there are no active customers; import them first');
    case 'otherDatabase':
      throw new ApiProblem(
        'run-of-another-database',
        `Temporal has ${outcome.workflowId} as ended, and this database has no plan of it; nobody was charged`,
      );
    default:
      return assertNever(outcome);
  }
}

function locationOf({ period, namespace }: RunRef): string {
  const query = namespace === 'base' ? '' : `?namespace=${namespace}`;
  return `/v1/runs/${period}${query}`;
}

function listed(run: ListedRun): ListedRunAnswer {
  return {
    period: run.period,
    namespace: run.namespace,
    state: run.state,
    control: run.control,
    note: run.controlNote,
    customers: run.customers,
    expected: { ...run.expectedMinorByCurrency },
    planned_by: run.plannedBy,
    planned_at: run.plannedAt.toISOString(),
    completed_at: run.completedAt?.toISOString() ?? null,
  };
}
