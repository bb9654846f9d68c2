import { describe, expect, it } from 'vitest';
import { dayNumber } from '../../src/domain/civil-date.ts';
import { skippedTick, type TickTime } from '../../src/domain/tick-gap.ts';

const from = dayNumber({ year: 2026, month: 1, day: 1 });
const daily: TickTime = {
  granularity: 'day',
  dayOfMonth: 1,
  hour: 0,
  minute: 0,
  zone: 'Europe/Berlin',
};

describe('skippedTick', () => {
  it.each([
    // Checked against a Temporal server: ListScheduleMatchingTimes leaves out both days.
    ['at midnight in Santiago', { zone: 'America/Santiago' }, '2026-9-6'],
    ['at 02:30 in Berlin', { hour: 2, minute: 30 }, '2026-3-29'],
    ['at 02:00, the first minute that is left out', { hour: 2 }, '2026-3-29'],
    ['at 02:59, the last one', { hour: 2, minute: 59 }, '2026-3-29'],
    [
      'on the 28th at 02:30',
      { granularity: 'month', dayOfMonth: 28, hour: 2, minute: 30 },
      '2027-3-28',
    ],
  ] as const)('finds the day of a tick %s', (_, time, day) => {
    const found = skippedTick({ ...daily, ...time }, from);
    expect(found && `${found.year}-${found.month}-${found.day}`).toBe(day);
  });

  it.each([
    ['at midnight in Berlin', {}],
    ['at 03:00 in Berlin, when the clocks have just been put forward', { hour: 3 }],
    ['at 01:59 in Berlin', { hour: 1, minute: 59 }],
    ['at 02:30 in UTC', { hour: 2, minute: 30, zone: 'UTC' }],
    ['at 00:30 in the zone that is 14 hours ahead', { minute: 30, zone: 'Pacific/Kiritimati' }],
    [
      'of weeks at 02:30 in Berlin, whose clocks change on Sundays',
      { granularity: 'week', hour: 2, minute: 30 },
    ],
    ['of years at 02:30 in Berlin', { granularity: 'year', hour: 2, minute: 30 }],
    ['on the 1st at midnight in Santiago', { granularity: 'month', zone: 'America/Santiago' }],
  ] as const)('finds none for a tick %s', (_, time) => {
    expect(skippedTick({ ...daily, ...time }, from)).toBeNull();
  });
});
