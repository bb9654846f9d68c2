import { InvalidArgumentError, type Command } from '@commander-js/extra-typings';
import type { ScheduleDescription } from '@temporalio/client';
import {
  describeSchedule,
  ensureSchedule,
  holdSchedule,
  removeSchedule,
  TickWouldBeSkipped,
  type EnsuredSchedule,
  type ScheduleChange,
  type WantedSchedule,
} from '../../client/schedule.ts';
import { logScheduleOrder } from '../../db/schedule-log.ts';
import { parseBillingNamespace, type BillingNamespace } from '../../domain/namespace.ts';
import { isTimeZone } from '../../domain/time-zone.ts';
import { CommandError, EXIT } from '../exit-codes.ts';
import { table } from '../output.ts';
import { defaultOperator, withSession, type Session, type Shell } from '../shell.ts';

const GRANULARITIES = ['year', 'month', 'week', 'day'] as const;

export function registerSchedule(program: Command, shell: Shell): void {
  const schedule = program
    .command('schedule')
    .description('the Temporal Schedule that starts each run');
  schedule
    .command('ensure')
    .description('create the Schedule, or bring it to these settings and show what changes')
    .option('--namespace <name>', 'what is billed', 'base')
    .option('--day <1-28>', 'day of the month', wholeNumber(1, 28), 1)
    .option('--time <HH:MM>', 'time of day (default: 00:00)', clockTime)
    .option(
      '--zone <zone>',
      'IANA time zone of calendar and periods (default: BILLING_ZONE)',
      timeZone,
    )
    .option(
      '--every <unit>',
      `length of a period: ${GRANULARITIES.join(', ')}`,
      granularity,
      'month' as const,
    )
    .option(
      '--in-arrears',
      'each tick bills the period that has just ended, not the one that begins',
    )
    .option('--reason <text>', 'why, for the audit log', 'settings of the schedule')
    .option('--operator <name>', 'who orders it, for the audit log', defaultOperator())
    .option('--dry-run', 'only show what would change')
    .option('--json', 'print the result as one JSON object on the last line')
    .action(async (options) => {
      const needs = { temporal: true };
      await withSession(shell, { needs, json: options.json === true }, async (session) => {
        const client = await session.platform.client();
        const wanted: WantedSchedule = {
          namespace: namespaceOf(options.namespace),
          dayOfMonth: options.day,
          ...(options.time ?? { hour: 0, minute: 0 }),
          zone: options.zone ?? session.config.BILLING_ZONE,
          granularity: options.every,
          bills: options.inArrears === true ? 'previous' : 'current',
        };
        const dryRun = options.dryRun === true;
        const change = await ensureSchedule(client.temporal, wanted, { dryRun: true }).catch(
          (error: unknown) => {
            if (!(error instanceof TickWouldBeSkipped)) throw error;
            throw new CommandError(EXIT.usage, error.message, error);
          },
        );
        const done = dryRun ? change : await set(session, wanted, { ...options, change });
        session.output.result({ ...done, dryRun });
        if (done.changes.length > 0) session.output.line(changesTable(done.changes));
        const verb =
          dryRun && done.action !== 'unchanged' ? `would be ${done.action}` : done.action;
        session.output.line(`schedule ${done.scheduleId}: ${verb}`);
        if (session.platform.lease?.endpoints.temporalAddress !== undefined) {
          session.output.note(
            'The embedded Temporal keeps it, and it fires only while "chargeonce up" runs',
          );
        }
      });
    });
  registerDescribe(schedule, shell);
  registerHold(schedule, shell);
  registerRemove(schedule, shell);
}

async function set(
  { platform }: Session,
  wanted: WantedSchedule,
  order: {
    readonly operator: string;
    readonly reason: string;
    readonly change: EnsuredSchedule;
  },
): Promise<EnsuredSchedule> {
  const { operator, reason, change } = order;
  const { namespace } = wanted;
  if (change.action !== 'unchanged') {
    const by = { operator, reason };
    await logScheduleOrder(platform.database.db, { action: 'set', namespace, ...by, change });
  }
  return ensureSchedule((await platform.client()).temporal, wanted);
}

function registerDescribe(schedule: Command, shell: Shell): void {
  schedule
    .command('describe')
    .description('show the Schedule: settings, state, next and recent ticks')
    .option('--namespace <name>', 'what is billed', 'base')
    .option('--json', 'print the result as one JSON object on the last line')
    .action(async (options) => {
      const needs = { temporal: true };
      await withSession(shell, { needs, json: options.json === true }, async (session) => {
        const client = await session.platform.client();
        const found = await describeSchedule(client.temporal, namespaceOf(options.namespace));
        if (found === null) throw noSchedule();
        session.output.result(described(found));
        session.output.line(
          table(
            ['what', 'value'],
            Object.entries(described(found)).map(([what, value]) => [what, String(value)]),
          ),
        );
      });
    });
}

const HOLDS = {
  pause: 'start no more runs; runs under way go on',
  resume: 'start runs again; ticks that were missed are not made up for',
} as const;

function registerHold(schedule: Command, shell: Shell): void {
  for (const action of ['pause', 'resume'] as const) {
    orderCommand(schedule, action, HOLDS[action]).action(async (options) => {
      const namespace = namespaceOf(options.namespace);
      const needs = { temporal: true };
      await withSession(shell, { needs, json: options.json === true }, async (session) => {
        const { platform, output } = session;
        const { temporal } = await platform.client();
        if ((await describeSchedule(temporal, namespace)) === null) throw noSchedule();
        const { operator, reason } = options;
        const order = { action, operator, reason };
        await logScheduleOrder(platform.database.db, { namespace, ...order });
        const note = await holdSchedule(temporal, namespace, order);
        if (note === null) throw noSchedule();
        const paused = action === 'pause';
        output.result({ paused, note });
        output.line(`the schedule is ${paused ? 'paused' : 'on again'}`);
      });
    });
  }
}

/** An order about the Schedule that there is, with who and why. */
function orderCommand(schedule: Command, name: string, description: string) {
  return schedule
    .command(name)
    .description(description)
    .requiredOption('--reason <text>', 'why, for the audit log')
    .option('--operator <name>', 'who orders it, for the audit log', defaultOperator())
    .option('--namespace <name>', 'what is billed', 'base')
    .option('--json', 'print the result as one JSON object on the last line');
}

function noSchedule(): CommandError {
  return new CommandError(
    EXIT.failed,
    'there is no schedule: create it with "chargeonce schedule ensure"',
  );
}

function registerRemove(schedule: Command, shell: Shell): void {
  const command = orderCommand(
    schedule,
    'remove',
    'remove the Schedule; runs it has started go on',
  );
  command.action(async ({ operator, reason, ...options }) => {
    const namespace = namespaceOf(options.namespace);
    const needs = { temporal: true };
    await withSession(shell, { needs, json: options.json === true }, async (session) => {
      const { platform } = session;
      const { temporal } = await platform.client();
      if ((await describeSchedule(temporal, namespace)) !== null) {
        const order = { action: 'remove', namespace, operator, reason } as const;
        await logScheduleOrder(platform.database.db, order);
      }
      const removed = await removeSchedule(temporal, namespace);
      session.output.result({ removed });
      session.output.line(removed ? 'the schedule is removed' : 'there was no schedule');
    });
  });
}

function changesTable(changes: readonly ScheduleChange[]): string {
  return table(
    ['setting', 'from', 'to'],
    changes.map((change) => [change.setting, change.from ?? '–', change.to]),
  );
}

function described(schedule: ScheduleDescription) {
  const { info, state, policies } = schedule;
  return {
    scheduleId: schedule.scheduleId,
    paused: state.paused,
    note: state.note ?? '',
    timezone: schedule.spec.timezone ?? 'UTC',
    catchupWindowHours: policies.catchupWindow / 3_600_000,
    pauseOnFailure: policies.pauseOnFailure,
    nextTicks: info.nextActionTimes.slice(0, 3).map((at) => at.toISOString()),
    recentTicks: info.recentActions.map((action) => action.scheduledAt.toISOString()),
    ticksTaken: info.numActionsTaken,
    ticksMissedCatchupWindow: info.numActionsMissedCatchupWindow,
  };
}

function namespaceOf(text: string): BillingNamespace {
  const parsed = parseBillingNamespace(text);
  if (parsed.ok) return parsed.namespace;
  throw new CommandError(EXIT.usage, parsed.problem);
}

function wholeNumber(least: number, most: number) {
  return (text: string): number => {
    const value = Number(text);
    if (Number.isInteger(value) && value >= least && value <= most) return value;
    throw new InvalidArgumentError(`a whole number from ${least} to ${most}`);
  };
}

function timeZone(text: string): string {
  if (isTimeZone(text)) return text;
  throw new InvalidArgumentError('an IANA time zone such as Europe/Berlin');
}

function clockTime(text: string): { hour: number; minute: number } {
  const match = /^([01]\d|2[0-3]):([0-5]\d)$/.exec(text);
  if (match === null) throw new InvalidArgumentError('a time like 00:00 or 23:30');
  return { hour: Number(match[1]), minute: Number(match[2]) };
}

function granularity(text: string): (typeof GRANULARITIES)[number] {
  const found = GRANULARITIES.find((unit) => unit === text);
  if (found === undefined) throw new InvalidArgumentError(`one of ${GRANULARITIES.join(', ')}`);
  return found;
}
