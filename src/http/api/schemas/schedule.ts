import { z } from 'zod';
import { isTimeZone } from '../../../domain/time-zone.ts';
import { namespace, reason, time } from './common.ts';

const clock = z
  .string()
  .regex(/^([01]\d|2[0-3]):[0-5]\d$/, 'must be a time like 00:00 or 23:30')
  .meta({ description: 'Time of day, in the zone', examples: ['06:00'] });

export const scheduleBody = z.strictObject({
  day: z
    .int()
    .min(1)
    .max(28)
    .default(1)
    .meta({ description: 'Day of the month; later days do not exist in every month' }),
  time: clock.default('00:00'),
  zone: z
    .string()
    .max(60)
    .refine(isTimeZone, 'must be an IANA time zone such as Europe/Berlin')
    .optional()
    .meta({ description: 'IANA time zone of calendar and periods; BILLING_ZONE when left out' }),
  every: z.enum(['year', 'month', 'week', 'day']).default('month'),
  in_arrears: z.boolean().default(false).meta({
    description: 'Each tick bills the period that has just ended, not the one that begins',
  }),
  reason,
});

export const scheduleQuery = z.strictObject({ namespace });

/** `?namespace=&dry_run=`. */
export const scheduleSetQuery = z.strictObject({
  namespace,
  dry_run: z.stringbool().default(false).meta({ description: 'Only say what would change' }),
});

export const scheduleSet = z
  .object({
    schedule_id: z.string(),
    action: z.enum(['created', 'updated', 'unchanged']),
    dry_run: z.boolean(),
    changes: z.array(
      z.object({ setting: z.string(), from: z.string().nullable(), to: z.string() }),
    ),
  })
  .meta({ id: 'ScheduleChange' });

export const schedule = z
  .object({
    schedule_id: z.string(),
    namespace: z.string(),
    paused: z.boolean(),
    note: z.string().meta({ description: 'Who paused or resumed it, and why' }),
    zone: z.string(),
    next_ticks: z.array(time),
    recent_ticks: z.array(time),
    ticks_taken: z.int(),
    ticks_missed: z.int().meta({
      description: 'Later than the catch-up window: their periods are billed by hand',
    }),
    catchup_window_hours: z.number(),
    pauses_on_failure: z.boolean(),
  })
  .meta({ id: 'Schedule' });

export const scheduleRemoved = z.object({
  removed: z.boolean().meta({ description: 'false: there was none' }),
});
