import type { Client, ScheduleDescription } from '@temporalio/client';
import type { z } from 'zod';
import {
  describeSchedule,
  ensureSchedule,
  holdSchedule,
  removeSchedule,
  TickWouldBeSkipped,
  type EnsuredSchedule,
  type WantedSchedule,
} from '../../../client/schedule.ts';
import { logScheduleOrder } from '../../../db/schedule-log.ts';
import type { BillingNamespace } from '../../../domain/namespace.ts';
import { callerOf } from '../auth.ts';
import { mayBeDone, readyForOrders } from '../before-orders.ts';
import type { ApiApp, ApiDeps } from '../deps.ts';
import { KEYED } from '../keyed.ts';
import { ApiProblem } from '../problems.ts';
import { orderBody } from '../schemas/common.ts';
import {
  schedule,
  scheduleBody,
  scheduleQuery,
  scheduleRemoved,
  scheduleSet,
  scheduleSetQuery,
} from '../schemas/schedule.ts';

const TAGS = ['schedule'];
/** Temporal answers for a Schedule itself, without a worker. */
const ASK_TIMEOUT_MS = 10_000;
const PROBLEMS = ['schedule-unknown', 'environment-mismatch', 'temporal-unavailable'] as const;
/**
 * Why a handler may run again: each order says how the Schedule is to be, and twice it is just so. Where it is not so after
 * a first try, somebody may have ordered otherwise since; then only a pause is given again, which fires no charges.
 */

/** `/v1/schedule`: the Temporal Schedule that starts the runs of a namespace. */
export function registerSchedule(app: ApiApp, deps: ApiDeps): void {
  app.get(
    '/schedule',
    {
      config: { access: 'viewer', problems: PROBLEMS },
      schema: {
        tags: TAGS,
        summary: 'Show the schedule: state, next and recent ticks',
        querystring: scheduleQuery,
        response: { 200: schedule },
      },
      preHandler: readyForOrders(deps),
    },
    async (request) => shownOf(deps, request.query.namespace),
  );
  registerSet(app, deps);
  registerHold(app, deps);
  registerRemove(app, deps);
}

function registerSet(app: ApiApp, deps: ApiDeps): void {
  app.put(
    '/schedule',
    {
      config: {
        access: 'admin',
        idempotency: KEYED,
        problems: [
          'schedule-skips',
          'order-overtaken',
          'environment-mismatch',
          'temporal-unavailable',
        ],
      },
      schema: {
        tags: TAGS,
        summary: 'Make the schedule, or bring it to these settings and say what changes',
        description: 'A schedule that is paused stays paused. Runs under way go on.',
        querystring: scheduleSetQuery,
        body: scheduleBody,
        response: { 200: scheduleSet },
      },
      preHandler: readyForOrders(deps),
    },
    async (request) => {
      const { namespace, dry_run: dryRun } = request.query;
      const { body } = request;
      const wanted = wantedOf(namespace, body, deps.zone);
      const change = await ask(deps, (client) => ensure(client, wanted, { dryRun: true }));
      if (!dryRun && mayBeDone(request) && change.action !== 'unchanged')
        throw overtaken(namespace);
      if (!dryRun) {
        const by = { operator: callerOf(request).name, reason: body.reason };
        await logScheduleOrder(deps.db, { action: 'set', namespace, ...by, change });
        await ask(deps, (client) => ensure(client, wanted));
      }
      const { scheduleId: id, action, changes } = change;
      return { schedule_id: id, action, dry_run: dryRun, changes: [...changes] };
    },
  );
}

function registerHold(app: ApiApp, deps: ApiDeps): void {
  for (const action of ['pause', 'resume'] as const) {
    const paused = action === 'pause';
    app.post(
      `/schedule/${action}`,
      {
        config: {
          access: 'operator',
          idempotency: KEYED,
          problems: paused ? PROBLEMS : [...PROBLEMS, 'order-overtaken'],
        },
        schema: {
          tags: TAGS,
          summary: paused
            ? 'Start no more runs by schedule; runs under way go on'
            : 'Let the schedule start runs again; ticks that were missed are not made up for',
          querystring: scheduleQuery,
          body: orderBody,
          response: { 200: schedule },
        },
        preHandler: readyForOrders(deps),
      },
      async (request) => {
        const { namespace } = request.query;
        const order = {
          action,
          operator: callerOf(request).name,
          reason: request.body.reason,
        };
        // There is one: only then it is an order.
        const before = await shownOf(deps, namespace);
        if (!paused && before.paused && mayBeDone(request)) throw overtaken(namespace);
        await logScheduleOrder(deps.db, { namespace, ...order });
        const note = await ask(deps, (client) => holdSchedule(client, namespace, order));
        if (note === null) throw unknown(namespace);
        return shownOf(deps, namespace);
      },
    );
  }
}

function registerRemove(app: ApiApp, deps: ApiDeps): void {
  app.delete(
    '/schedule',
    {
      config: {
        access: 'admin',
        idempotency: KEYED,
        problems: ['order-overtaken', 'environment-mismatch', 'temporal-unavailable'],
      },
      schema: {
        tags: TAGS,
        summary: 'Remove the schedule; runs that it has started go on',
        querystring: scheduleQuery,
        body: orderBody,
        response: { 200: scheduleRemoved },
      },
      preHandler: readyForOrders(deps),
    },
    async (request) => {
      const { namespace } = request.query;
      const { reason } = request.body;
      const stands = (client: Client) => describeSchedule(client, namespace);
      if (mayBeDone(request) && (await ask(deps, stands)) !== null) throw overtaken(namespace);
      const operator = callerOf(request).name;
      await logScheduleOrder(deps.db, { action: 'remove', namespace, operator, reason });
      return { removed: await ask(deps, (client) => removeSchedule(client, namespace)) };
    },
  );
}

async function ask<T>(deps: ApiDeps, question: (client: Client) => Promise<T>): Promise<T> {
  const { temporal } = await deps.temporal();
  return temporal.withDeadline(Date.now() + ASK_TIMEOUT_MS, () => question(temporal));
}

async function ensure(
  client: Client,
  wanted: WantedSchedule,
  options: { readonly dryRun?: boolean } = {},
): Promise<EnsuredSchedule> {
  try {
    return await ensureSchedule(client, wanted, options);
  } catch (error) {
    if (error instanceof TickWouldBeSkipped) throw new ApiProblem('schedule-skips', error.message);
    throw error;
  }
}

function wantedOf(
  namespace: BillingNamespace,
  body: z.output<typeof scheduleBody>,
  zone: string,
): WantedSchedule {
  const [hour, minute] = body.time.split(':').map(Number);
  return {
    namespace,
    dayOfMonth: body.day,
    hour: hour ?? 0,
    minute: minute ?? 0,
    zone: body.zone ?? zone,
    granularity: body.every,
    bills: body.in_arrears ? 'previous' : 'current',
  };
}

async function shownOf(deps: ApiDeps, namespace: BillingNamespace) {
  const found = await ask(deps, (client) => describeSchedule(client, namespace));
  if (found === null) throw unknown(namespace);
  return shown(namespace, found);
}

function overtaken(namespace: BillingNamespace): ApiProblem {
  return new ApiProblem(
    'order-overtaken',
    `an earlier try may have done this, and the schedule of ${namespace} is otherwise now: look at it, and order it under a new Idempotency-Key if it is still right; nothing was done`,
  );
}

function unknown(namespace: BillingNamespace): ApiProblem {
  return new ApiProblem('schedule-unknown', `no schedule starts the runs of ${namespace}`);
}

function shown(namespace: BillingNamespace, found: ScheduleDescription): z.input<typeof schedule> {
  const { info, state, policies, spec } = found;
  return {
    schedule_id: found.scheduleId,
    namespace,
    paused: state.paused,
    note: state.note ?? '',
    zone: spec.timezone ?? 'UTC',
    next_ticks: info.nextActionTimes.slice(0, 3).map((at) => at.toISOString()),
    recent_ticks: info.recentActions.map(({ scheduledAt }) => scheduledAt.toISOString()),
    ticks_taken: info.numActionsTaken,
    ticks_missed: info.numActionsMissedCatchupWindow,
    catchup_window_hours: policies.catchupWindow / 3_600_000,
    pauses_on_failure: policies.pauseOnFailure,
  };
}
