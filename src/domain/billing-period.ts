import { assertNever } from './assert-never.ts';
import {
  civilDate,
  dayNumber,
  daysInMonth,
  isoWeek,
  isoWeeksInYear,
  isoYearStart,
  MS_PER_DAY,
} from './civil-date.ts';
import { startOfDay, zoneOffsetMs } from './time-zone.ts';

declare const billingPeriodBrand: unique symbol;

/** `2026-11`, `2026-W48`, `2026-11-29` or `2026`: one canonical string each, safe in ids. */
export type BillingPeriod = string & { readonly [billingPeriodBrand]: true };

export type Granularity = 'year' | 'month' | 'week' | 'day';

export type ParsedPeriod =
  | { readonly ok: true; readonly period: BillingPeriod }
  | { readonly ok: false; readonly problem: string };

/** Half-open: `startMs` belongs to the period, `endMs` to the next. Milliseconds since the epoch. */
export type PeriodBounds = { readonly startMs: number; readonly endMs: number };

// A year outside is a typing error; the bound also keeps every string four digits long.
const FIRST_YEAR = 2000;
const LAST_YEAR = 2999;

type Parts =
  | { readonly granularity: 'year'; readonly year: number }
  | { readonly granularity: 'month'; readonly year: number; readonly month: number }
  | { readonly granularity: 'week'; readonly year: number; readonly week: number }
  | {
      readonly granularity: 'day';
      readonly year: number;
      readonly month: number;
      readonly day: number;
    };

const FORM = /^(\d{4})(?:-(?:W(\d{2})|(\d{2})(?:-(\d{2}))?))?$/;

/** The only way from a text to a `BillingPeriod`. The problem says what to write instead. */
export function parseBillingPeriod(text: string): ParsedPeriod {
  if (isBillingPeriod(text)) return { ok: true, period: text };
  const parts = readParts(text);
  return { ok: false, problem: (parts && partsProblem(text, parts)) ?? formProblem(text) };
}

function isBillingPeriod(text: string): text is BillingPeriod {
  const parts = readParts(text);
  return parts !== undefined && partsProblem(text, parts) === undefined;
}

function readParts(text: string): Parts | undefined {
  const match = FORM.exec(text);
  if (match === null) return undefined;
  const [, year, week, month, day] = match;
  if (week !== undefined) return { granularity: 'week', year: Number(year), week: Number(week) };
  if (month === undefined) return { granularity: 'year', year: Number(year) };
  const monthParts = { year: Number(year), month: Number(month) };
  if (day === undefined) return { granularity: 'month', ...monthParts };
  return { granularity: 'day', ...monthParts, day: Number(day) };
}

function formProblem(text: string): string {
  const shown = JSON.stringify(text);
  const trimmed = text.trim();
  if (trimmed !== text && FORM.test(trimmed)) {
    return `${shown} is not a billing period: remove the spaces around "${trimmed}"`;
  }
  const short = /^(\d{4})-(\d)$/.exec(text);
  if (short !== null) {
    return `${shown} is not a billing period: write the month with two digits, ${short[1]}-0${short[2]}`;
  }
  return (
    `${shown} is not a billing period: write a month (2026-11), a week (2026-W48), ` +
    'a day (2026-11-29) or a year (2026)'
  );
}

function partsProblem(text: string, parts: Parts): string | undefined {
  const { year } = parts;
  if (year < FIRST_YEAR || year > LAST_YEAR) {
    return `"${text}" is not a billing period: the year must lie between ${FIRST_YEAR} and ${LAST_YEAR}`;
  }
  if (parts.granularity === 'week') {
    const last = isoWeeksInYear(year);
    if (parts.week >= 1 && parts.week <= last) return undefined;
    return `"${text}" is not a billing period: ${year} has the weeks ${year}-W01 to ${year}-W${last}`;
  }
  if (parts.granularity === 'year') return undefined;
  if (parts.month < 1 || parts.month > 12) {
    return `"${text}" is not a billing period: months go from ${year}-01 to ${year}-12`;
  }
  if (parts.granularity === 'month') return undefined;
  const lastDay = daysInMonth(year, parts.month);
  if (parts.day >= 1 && parts.day <= lastDay) return undefined;
  return `"${text}" is not a billing period: ${text.slice(0, 7)} has the days 01 to ${lastDay}`;
}

function partsOf(period: BillingPeriod): Parts {
  const parts = readParts(period);
  if (parts === undefined) throw new RangeError(`Not a billing period: ${period}`);
  return parts;
}

/** Whether a period is a year, a month, a week or a day. */
export function granularityOf(period: BillingPeriod): Granularity {
  return partsOf(period).granularity;
}

/** The instants a period covers in an IANA zone, `[startMs, endMs)`. */
export function periodBounds(period: BillingPeriod, zone: string): PeriodBounds {
  const { firstDay, endDay } = dayRange(partsOf(period));
  return { startMs: startOfDay(firstDay, zone), endMs: startOfDay(endDay, zone) };
}

/** The one period of a granularity that holds an instant in an IANA zone. */
export function periodContaining(
  instantMs: number,
  granularity: Granularity,
  zone: string,
): BillingPeriod {
  const wallMs = instantMs + zoneOffsetMs(instantMs, zone);
  const period = periodOfDay(Math.floor(wallMs / MS_PER_DAY), granularity);
  // Where clocks go back over midnight the wall shows the old day once more; the bounds decide.
  const { startMs, endMs } = periodBounds(period, zone);
  if (instantMs < startMs) return previousPeriod(period);
  if (instantMs >= endMs) return nextPeriod(period);
  return period;
}

/** The period after, of the same granularity. */
export function nextPeriod(period: BillingPeriod): BillingPeriod {
  const parts = partsOf(period);
  return periodOfDay(dayRange(parts).endDay, parts.granularity);
}

/** The period before, of the same granularity. */
export function previousPeriod(period: BillingPeriod): BillingPeriod {
  const parts = partsOf(period);
  return periodOfDay(dayRange(parts).firstDay - 1, parts.granularity);
}

/** Day numbers, half-open. */
function dayRange(parts: Parts): { readonly firstDay: number; readonly endDay: number } {
  const { year } = parts;
  switch (parts.granularity) {
    case 'year':
      return {
        firstDay: dayNumber({ year, month: 1, day: 1 }),
        endDay: dayNumber({ year: year + 1, month: 1, day: 1 }),
      };
    case 'month': {
      const firstDay = dayNumber({ year, month: parts.month, day: 1 });
      return { firstDay, endDay: firstDay + daysInMonth(year, parts.month) };
    }
    case 'week': {
      const firstDay = isoYearStart(year) + (parts.week - 1) * 7;
      return { firstDay, endDay: firstDay + 7 };
    }
    case 'day': {
      const firstDay = dayNumber(parts);
      return { firstDay, endDay: firstDay + 1 };
    }
    default:
      return assertNever(parts);
  }
}

function periodOfDay(days: number, granularity: Granularity): BillingPeriod {
  const { year, month, day } = civilDate(days);
  const week = isoWeek(days);
  switch (granularity) {
    case 'year':
      return checked(`${year}`);
    case 'month':
      return checked(`${year}-${twoDigits(month)}`);
    case 'week':
      return checked(`${week.year}-W${twoDigits(week.week)}`);
    case 'day':
      return checked(`${year}-${twoDigits(month)}-${twoDigits(day)}`);
    default:
      return assertNever(granularity);
  }
}

function checked(text: string): BillingPeriod {
  const parsed = parseBillingPeriod(text);
  if (!parsed.ok) throw new RangeError(parsed.problem);
  return parsed.period;
}

function twoDigits(value: number): string {
  return String(value).padStart(2, '0');
}
