import type { Granularity } from './billing-period.ts';
import { civilDate, MS_PER_DAY, type CivilDate } from './civil-date.ts';
import { zoneOffsetMs } from './time-zone.ts';

export interface TickTime {
  readonly granularity: Granularity;
  /** for months and years (in January) */
  readonly dayOfMonth: number;
  readonly hour: number;
  readonly minute: number;
  readonly zone: string;
}

/** Rules for clocks are known and published for a few years; a Schedule is looked at within ten. */
const DAYS_LOOKED_AT = 3_653;

/**
 * The first date from a day number on, within ten years, on which the tick's time does not exist since
 * the clocks are put forward over it, or null. A Schedule drops such a tick, and nobody bills its period.
 */
export function skippedTick(time: TickTime, fromDay: number): CivilDate | null {
  for (let day = fromDay; day < fromDay + DAYS_LOOKED_AT; day += 1) {
    const date = civilDate(day);
    if (ticksOn(time, day, date) && !timeExists(time, day)) return date;
  }
  return null;
}

function ticksOn(time: TickTime, day: number, date: CivilDate): boolean {
  switch (time.granularity) {
    case 'day':
      return true;
    case 'week':
      // Day 0 was a Thursday; ticks of weeks fall on Mondays.
      return (day + 3) % 7 === 0;
    case 'month':
      return date.day === time.dayOfMonth;
    case 'year':
      return date.month === 1 && date.day === time.dayOfMonth;
  }
}

function timeExists({ hour, minute, zone }: TickTime, day: number): boolean {
  const wallMs = day * MS_PER_DAY + (hour * 60 + minute) * 60_000;
  // Offsets lie between -12 h and +14 h: one of these two holds at the instant, if there is one.
  return [wallMs - 15 * 3_600_000, wallMs + 13 * 3_600_000].some((near) => {
    const offset = zoneOffsetMs(near, zone);
    return zoneOffsetMs(wallMs - offset, zone) === offset;
  });
}
