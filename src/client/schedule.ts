import {
  ScheduleNotFoundError,
  ScheduleOverlapPolicy,
  type Client,
  type ScheduleDescription,
  type ScheduleOptions,
} from '@temporalio/client';
import type { Granularity } from '../domain/billing-period.ts';
import { BILLING_TASK_QUEUE, scheduleId, tickWorkflowId } from '../domain/ids.ts';
import type { BillingNamespace } from '../domain/namespace.ts';
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

/** A tick that is later than this is not made up for: an operator bills the period by hand. */
const CATCHUP_WINDOW_MS = 3 * 24 * 3_600_000;

/**
 * Creates the namespace's Schedule or brings it to what is wanted, and says what that changes. With
 * `dryRun` it only says. Twice: the second changes nothing. A Schedule that is paused stays paused.
 */
export async function ensureSchedule(
  client: Client,
  wanted: WantedSchedule,
  options: { readonly dryRun?: boolean } = {},
): Promise<EnsuredSchedule> {
  const id = scheduleId(wanted.namespace);
  const target = scheduleOptions(wanted);
  const current = await describeSchedule(client, wanted.namespace);
  const changes = differences(current === null ? null : settingsOf(current), settingsOf(target));
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

/** Removes the Schedule; runs it has started go on. False when there was none. */
export async function removeSchedule(client: Client, namespace: BillingNamespace): Promise<boolean> {
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
      // The tick lasts seconds; a second one at the same time would find the run started.
      overlap: ScheduleOverlapPolicy.SKIP,
      // Explicit: the default of a year would bill November in December.
      catchupWindow: CATCHUP_WINDOW_MS,
      pauseOnFailure: true,
    },
  } satisfies ScheduleOptions;
}

function calendarOf(wanted: WantedSchedule) {
  const { dayOfMonth, hour, minute, granularity } = wanted;
  const at = { hour, minute, second: 0, comment: `each ${granularity}` };
  switch (granularity) {
    case 'year':
      return { ...at, month: 'JANUARY' as const, dayOfMonth };
    case 'month':
      return { ...at, dayOfMonth };
    case 'week':
      return { ...at, dayOfWeek: 'MONDAY' as const };
    case 'day':
      return at;
  }
}

/** The same few facts of what we want and of what Temporal describes. */
function settingsOf(schedule: Pick<ScheduleOptions, 'spec' | 'action' | 'policies'> | ScheduleDescription): Settings {
  const { spec, action, policies } = schedule;
  return {
    calendar: (spec.calendars ?? []).map(calendarText).join('; '),
    'time zone': spec.timezone ?? 'UTC',
    'workflow type': typeof action.workflowType === 'string' ? action.workflowType : action.workflowType.name,
    'workflow id': action.workflowId ?? '',
    'task queue': action.taskQueue,
    input: JSON.stringify(action.args ?? []),
    overlap: String(policies?.overlap ?? ''),
    'catch-up window': `${Number(policies?.catchupWindow ?? 0) / 3_600_000} h`,
    'pause on failure': String(policies?.pauseOnFailure ?? false),
  };
}

/** Temporal describes every field as ranges; what we write are single values or nothing. */
function calendarText(calendar: object): string {
  const fields = calendar as Readonly<Record<string, unknown>>;
  const part = (name: string): string => rangeText(fields[name]);
  const defaults: Readonly<Record<string, string>> = { month: '*', dayOfMonth: '*', dayOfWeek: '*' };
  const names = ['month', 'dayOfMonth', 'dayOfWeek', 'hour', 'minute'];
  return names.map((name) => `${name} ${part(name) || (defaults[name] ?? '0')}`).join(', ');
}

/** Whole fields, as Temporal expands "*". */
const FULL_RANGES = new Set(['JANUARY-DECEMBER', '1-31', 'SUNDAY-SATURDAY', '1-12', '0-6']);

function rangeText(value: unknown): string {
  if (value === undefined || value === null) return '';
  if (Array.isArray(value)) return value.map(rangeText).join(',');
  if (typeof value !== 'object') return String(value as string | number);
  const { start, end } = value as { start: unknown; end?: unknown };
  if (end === undefined || end === start) return String(start as string | number);
  const text = `${String(start as string)}-${String(end as string)}`;
  return FULL_RANGES.has(text) ? '*' : text;
}

function differences(from: Settings | null, to: Settings): ScheduleChange[] {
  return Object.entries(to)
    .filter(([setting, value]) => from?.[setting] !== value)
    .map(([setting, value]) => ({ setting, from: from?.[setting] ?? null, to: value }));
}
