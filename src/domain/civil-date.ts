// Calendar arithmetic on plain numbers. `Date` is not used: its months overflow silently, and in
// workflow code it is a clock.

export const MS_PER_DAY = 86_400_000;

export type CivilDate = { readonly year: number; readonly month: number; readonly day: number };

/** Days since 1970-01-01 of a date in the proleptic Gregorian calendar. */
export function dayNumber({ year, month, day }: CivilDate): number {
  // Years begin in March, so that the leap day is the last day of its year.
  const y = month <= 2 ? year - 1 : year;
  const era = Math.floor(y / 400);
  const yearOfEra = y - era * 400;
  const dayOfYear = Math.floor((153 * ((month + 9) % 12) + 2) / 5) + day - 1;
  const leapDays = Math.floor(yearOfEra / 4) - Math.floor(yearOfEra / 100);
  return era * 146_097 + yearOfEra * 365 + leapDays + dayOfYear - 719_468;
}

/** The date of a day number; the inverse of `dayNumber`. */
export function civilDate(days: number): CivilDate {
  const shifted = days + 719_468;
  const era = Math.floor(shifted / 146_097);
  const dayOfEra = shifted - era * 146_097;
  const yearOfEra = Math.floor(
    (dayOfEra -
      Math.floor(dayOfEra / 1460) +
      Math.floor(dayOfEra / 36_524) -
      Math.floor(dayOfEra / 146_096)) /
      365,
  );
  const leapDays = Math.floor(yearOfEra / 4) - Math.floor(yearOfEra / 100);
  const dayOfYear = dayOfEra - (365 * yearOfEra + leapDays);
  const monthFromMarch = Math.floor((5 * dayOfYear + 2) / 153);
  const month = monthFromMarch < 10 ? monthFromMarch + 3 : monthFromMarch - 9;
  return {
    year: yearOfEra + era * 400 + (month <= 2 ? 1 : 0),
    month,
    day: dayOfYear - Math.floor((153 * monthFromMarch + 2) / 5) + 1,
  };
}

/** 28 to 31. */
export function daysInMonth(year: number, month: number): number {
  const next = month === 12 ? { year: year + 1, month: 1 } : { year, month: month + 1 };
  return dayNumber({ ...next, day: 1 }) - dayNumber({ year, month, day: 1 });
}

/** The Monday (as a day number) on which week 1 of an ISO year begins: the week of January 4th. */
export function isoYearStart(year: number): number {
  const fourth = dayNumber({ year, month: 1, day: 4 });
  return fourth - daysAfterMonday(fourth);
}

/** ISO year and week of a day number. */
export function isoWeek(days: number): { readonly year: number; readonly week: number } {
  const monday = days - daysAfterMonday(days);
  // The week belongs to the year of its Thursday.
  const { year } = civilDate(monday + 3);
  return { year, week: (monday - isoYearStart(year)) / 7 + 1 };
}

/** 52 or 53. */
export function isoWeeksInYear(year: number): number {
  return (isoYearStart(year + 1) - isoYearStart(year)) / 7;
}

function daysAfterMonday(days: number): number {
  // Day 0 was a Thursday.
  return (((days + 3) % 7) + 7) % 7;
}

/**
 * The date in a month that an anchor day falls on: 31 gives Feb 28 or 29, then Mar 31 again.
 * Computed from the anchor, never from the last date, which would drift to 28 for ever.
 * `month` may count on past 12, or below 1: month 14 of 2024 is February 2025.
 */
export function anchorDate(anchorDay: number, year: number, month: number): CivilDate {
  if (!Number.isInteger(anchorDay) || anchorDay < 1 || anchorDay > 31) {
    throw new RangeError(`Not an anchor day: ${anchorDay}`);
  }
  const months = year * 12 + (month - 1);
  const at = { year: Math.floor(months / 12), month: (((months % 12) + 12) % 12) + 1 };
  return { ...at, day: Math.min(anchorDay, daysInMonth(at.year, at.month)) };
}
