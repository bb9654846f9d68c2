import {
  ScheduleAlreadyRunning,
  ScheduleNotFoundError,
  ScheduleOverlapPolicy,
  type CalendarSpecDescription,
  type Client,
  type DayOfWeek,
  type Month,
  type Range,
  type ScheduleDescription,
  type ScheduleOptions,
} from '@temporalio/client';
import { assertNever } from '../domain/assert-never.ts';
import type { Granularity } from '../domain/billing-period.ts';
import { MS_PER_DAY } from '../domain/civil-date.ts';
import { BILLING_TASK_QUEUE, scheduleId, tickWorkflowId } from '../domain/ids.ts';
import type { BillingNamespace } from '../domain/namespace.ts';
import { skippedTick } from '../domain/tick-gap.ts';
import type { TickInput } from '../workflows/billing-tick.ts';

export interface WantedSchedule {
  readonly namespace: BillingNamespace;
  /** day of the month, 1 to 28: later days do not exist in every month */
  readonly dayOfMonth: number;
  readonly hour: number;
  readonly minute: number;
  /** IANA zone of the calendar and of the periods */
  readonly zone: string;
  readonly granularity: Granularity;
  /** the period that begins at the tick, or the one before it */
  readonly bills: 'current' | 'previous';
}

/** Everything of a Schedule that we decide on, as text to compare and to show. */
type Settings = Readonly<Record<string, string>>;

export interface ScheduleChange {
  readonly setting: string;
  readonly from: string | null;
  readonly to: string;
}

export interface EnsuredSchedule {
  readonly scheduleId: string;
  readonly action: 'created' | 'updated' | 'unchanged';
  readonly changes: readonly ScheduleChange[];
}

/** The wanted time does not exist on some day of the wanted ones; nothing was changed. */
export class TickWouldBeSkipped extends Error {
  override readonly name = 'TickWouldBeSkipped';
}

/** A tick that is later than this is not made up for: an operator bills the period by hand. */
const CATCHUP_WINDOW_MS = 3 * 24 * 3_600_000;

/** Between a look and its change others may create or remove it; more often in a row nobody does. */
const MAX_LOOKS = 5;

/**
 * Creates the namespace's Schedule or brings it to what is wanted, and says what that changes. With
 * `dryRun` it only says. Twice: the second changes nothing; at once: one after the other. A Schedule
 * that is paused stays paused.
 */
export async function ensureSchedule(
  client: Client,
  wanted: WantedSchedule,
  options: { readonly dryRun?: boolean } = {},
): Promise<EnsuredSchedule> {
  refuseSkippedTicks(wanted);
  for (let looks = 1; ; looks += 1) {
    try {
      return await lookAndChange(client, wanted, options);
    } catch (error) {
      const overtaken =
        error instanceof ScheduleAlreadyRunning || error instanceof ScheduleNotFoundError;
      if (!overtaken || looks === MAX_LOOKS) throw error;
    }
  }
}

async function lookAndChange(
  client: Client,
  wanted: WantedSchedule,
  options: { readonly dryRun?: boolean },
): Promise<EnsuredSchedule> {
  const id = scheduleId(wanted.namespace);
  const target = scheduleOptions(wanted);
  const current = await describeSchedule(client, wanted.namespace);
  const changes = differences(
    current === null ? null : settingsOf(comparable(current)),
    settingsOf({ ...target, ...target.spec }),
  );
  if (current === null) {
    if (options.dryRun !== true) await client.schedule.create(target);
    return { scheduleId: id, action: 'created', changes };
  }
  if (changes.length === 0) return { scheduleId: id, action: 'unchanged', changes };
  if (options.dryRun !== true) {
    await client.schedule.getHandle(id).update((previous) => ({
      ...previous,
      spec: target.spec,
      action: target.action,
      policies: { ...previous.policies, ...target.policies },
    }));
  }
  return { scheduleId: id, action: 'updated', changes };
}

function refuseSkippedTicks(wanted: WantedSchedule): void {
  const skipped = skippedTick(wanted, Math.floor(Date.now() / MS_PER_DAY));
  if (skipped === null) return;
  const two = (value: number): string => String(value).padStart(2, '0');
  throw new TickWouldBeSkipped(
    `${two(wanted.hour)}:${two(wanted.minute)} does not exist on ${skipped.year}-${two(skipped.month)}-${two(skipped.day)} ` +
      `in ${wanted.zone}: clocks are put forward over it, and that period would be billed by nobody. Choose another time, ` +
      'such as 06:00',
  );
}

/** The Schedule as Temporal has it, or null when there is none. */
export async function describeSchedule(
  client: Client,
  namespace: BillingNamespace,
): Promise<ScheduleDescription | null> {
  try {
    return await client.schedule.getHandle(scheduleId(namespace)).describe();
  } catch (error) {
    if (error instanceof ScheduleNotFoundError) return null;
    throw error;
  }
}

/**
 * Lets the Schedule tick no more, or again, and returns the note that says who and why. Twice: it stays so, with the note
 * of the second. Null when there is none.
 */
export async function holdSchedule(
  client: Client,
  namespace: BillingNamespace,
  order: {
    readonly action: 'pause' | 'resume';
    readonly operator: string;
    readonly reason: string;
  },
): Promise<string | null> {
  const paused = order.action === 'pause';
  const note = `${paused ? 'paused' : 'resumed'} by ${order.operator}: ${order.reason}`;
  const handle = client.schedule.getHandle(scheduleId(namespace));
  try {
    await (paused ? handle.pause(note) : handle.unpause(note));
    return note;
  } catch (error) {
    if (error instanceof ScheduleNotFoundError) return null;
    throw error;
  }
}

/** Removes the Schedule; runs it has started go on. False when there was none. */
export async function removeSchedule(
  client: Client,
  namespace: BillingNamespace,
): Promise<boolean> {
  try {
    await client.schedule.getHandle(scheduleId(namespace)).delete();
    return true;
  } catch (error) {
    if (error instanceof ScheduleNotFoundError) return false;
    throw error;
  }
}

function scheduleOptions(wanted: WantedSchedule) {
  const input: TickInput = {
    namespace: wanted.namespace,
    granularity: wanted.granularity,
    zone: wanted.zone,
    bills: wanted.bills,
  };
  return {
    scheduleId: scheduleId(wanted.namespace),
    spec: {
      calendars: [calendarOf(wanted)],
      timezone: wanted.zone,
    },
    action: {
      type: 'startWorkflow',
      workflowType: 'billingTick',
      workflowId: tickWorkflowId(wanted.namespace),
      taskQueue: BILLING_TASK_QUEUE,
      args: [input],
      staticSummary: `starts the billing run of each ${wanted.granularity}`,
    },
    policies: {
      // Each tick is a period of its own: one that comes while the tick before it waits for a worker
      // must wait as well. Skipped, its period would be billed by nobody.
      overlap: ScheduleOverlapPolicy.BUFFER_ALL,
      // Explicit: the default of a year would bill November in December.
      catchupWindow: CATCHUP_WINDOW_MS,
      pauseOnFailure: true,
    },
  } satisfies ScheduleOptions;
}

/** A calendar in the form in which Temporal describes it, so that both are compared as they are. */
type Calendar = Pick<
  CalendarSpecDescription,
  'minute' | 'hour' | 'dayOfMonth' | 'month' | 'dayOfWeek'
>;

function calendarOf(wanted: WantedSchedule): Calendar {
  const { dayOfMonth, granularity } = wanted;
  const every: Calendar = {
    hour: [range(wanted.hour, wanted.hour)],
    minute: [range(wanted.minute, wanted.minute)],
    dayOfMonth: [range(1, 31)],
    dayOfWeek: [range<DayOfWeek>('SUNDAY', 'SATURDAY')],
    month: [range<Month>('JANUARY', 'DECEMBER')],
  };
  switch (granularity) {
    case 'year':
      return {
        ...every,
        month: [range<Month>('JANUARY', 'JANUARY')],
        dayOfMonth: [range(dayOfMonth, dayOfMonth)],
      };
    case 'month':
      return { ...every, dayOfMonth: [range(dayOfMonth, dayOfMonth)] };
    case 'week':
      return { ...every, dayOfWeek: [range<DayOfWeek>('MONDAY', 'MONDAY')] };
    case 'day':
      return every;
    default:
      return assertNever(granularity);
  }
}

function range<Unit>(start: Unit, end: Unit): Range<Unit> {
  return { start, end, step: 1 };
}

interface Comparable {
  readonly calendars: readonly Calendar[];
  readonly timezone: string | undefined;
  readonly action: {
    readonly workflowType: string;
    readonly workflowId?: string | undefined;
    readonly taskQueue: string;
    readonly args?: readonly unknown[] | undefined;
  };
  readonly policies: {
    readonly overlap?: string | undefined;
    readonly catchupWindow?: number | undefined;
    readonly pauseOnFailure?: boolean | undefined;
  };
}

/** The few facts we decide on, the same for what we want and for what Temporal describes. */
function settingsOf({ calendars, timezone, action, policies }: Comparable): Settings {
  return {
    calendar: calendars.map(calendarText).join('; '),
    'time zone': timezone ?? 'UTC',
    'workflow type': action.workflowType,
    'workflow id': action.workflowId ?? '',
    'task queue': action.taskQueue,
    input: JSON.stringify(action.args ?? []),
    overlap: policies.overlap ?? '',
    'catch-up window': `${(policies.catchupWindow ?? 0) / 3_600_000} h`,
    'pause on failure': String(policies.pauseOnFailure ?? false),
  };
}

function comparable(description: ScheduleDescription): Comparable {
  const { spec, action, policies } = description;
  return { calendars: spec.calendars ?? [], timezone: spec.timezone, action, policies };
}

function calendarText(calendar: Calendar): string {
  const { month, dayOfMonth, dayOfWeek, hour, minute } = calendar;
  return [
    `month ${rangesText(month)}`,
    `day ${rangesText(dayOfMonth)}`,
    `weekday ${rangesText(dayOfWeek)}`,
    `hour ${rangesText(hour)}`,
    `minute ${rangesText(minute)}`,
  ].join(', ');
}

function rangesText(ranges: readonly Range<number | string>[]): string {
  const texts = ranges.map(({ start, end }) => (start === end ? `${start}` : `${start}-${end}`));
  // Temporal leaves a field out when it is only zero.
  return texts.length === 0 ? '0' : texts.join(',');
}

function differences(from: Settings | null, to: Settings): ScheduleChange[] {
  return Object.entries(to)
    .filter(([setting, value]) => from?.[setting] !== value)
    .map(([setting, value]) => ({ setting, from: from?.[setting] ?? null, to: value }));
}
