import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  granularityOf,
  nextPeriod,
  parseBillingPeriod,
  periodBounds,
  periodContaining,
  previousPeriod,
} from '../../src/domain/billing-period.ts';
import type { BillingPeriod, Granularity } from '../../src/domain/billing-period.ts';
import { anchorDate, civilDate, dayNumber, isoWeek } from '../../src/domain/civil-date.ts';
import { isTimeZone, startOfDay, zoneOffsetMs } from '../../src/domain/time-zone.ts';

const GRANULARITIES: readonly Granularity[] = ['year', 'month', 'week', 'day'];

// With and without daylight saving, both hemispheres, half hours, midnight skipped or doubled, a
// day that never was (Samoa 2011-12-30), and clocks set back from 00:01 to 23:01 (Newfoundland).
const ZONES = [
  'UTC',
  'Europe/Berlin',
  'America/New_York',
  'America/Sao_Paulo',
  'America/St_Johns',
  'Asia/Kolkata',
  'Australia/Lord_Howe',
  'Pacific/Apia',
  'Pacific/Kiritimati',
  'Africa/Casablanca',
  'Asia/Beirut',
];

const HOUR = 3_600_000;

function period(text: string): BillingPeriod {
  const parsed = parseBillingPeriod(text);
  if (!parsed.ok) throw new Error(parsed.problem);
  return parsed.period;
}

function problem(text: string): string {
  const parsed = parseBillingPeriod(text);
  if (parsed.ok) throw new Error(`${JSON.stringify(text)} was taken`);
  return parsed.problem;
}

function iso(text: string): number {
  return Date.parse(text);
}

describe('a billing period', () => {
  test.each([
    ['2026-11', 'month'],
    ['2026-W48', 'week'],
    ['2026-W53', 'week'],
    ['2026-11-29', 'day'],
    ['2024-02-29', 'day'],
    ['2026', 'year'],
  ])('written %s is a %s', (text, granularity) => {
    expect(period(text)).toBe(text);
    expect(granularityOf(period(text))).toBe(granularity);
  });

  test.each([
    ['2026-13', 'months go from 2026-01 to 2026-12'],
    ['2026-00', 'months go from 2026-01 to 2026-12'],
    ['2026-2', 'write the month with two digits, 2026-02'],
    [' 2026-02', 'remove the spaces around "2026-02"'],
    ['2026-02\n', 'remove the spaces around "2026-02"'],
    ['2025-W53', '2025 has the weeks 2025-W01 to 2025-W52'],
    ['2026-W00', '2026 has the weeks 2026-W01 to 2026-W53'],
    ['2026-02-29', '2026-02 has the days 01 to 28'],
    ['2026-04-31', '2026-04 has the days 01 to 30'],
    ['2026-04-00', '2026-04 has the days 01 to 30'],
    ['0026-01', 'the year must lie between 2000 and 2999'],
    ['20260-1', 'write a month (2026-11), a week (2026-W48), a day (2026-11-29) or a year (2026)'],
    ['2026-w48', 'write a month (2026-11)'],
    ['2026/11', 'write a month (2026-11)'],
    ['٢٠٢٦-11', 'write a month (2026-11)'],
    ['', 'write a month (2026-11)'],
  ])('written %j is refused, with what to do', (text, expected) => {
    expect(problem(text)).toContain(`${JSON.stringify(text)} is not a billing period: `);
    expect(problem(text)).toContain(expected);
  });

  test('is never made from a text that is not in one of the four forms', () => {
    const nearMisses = fc.stringMatching(/^[0-9W -]{0,11}$/);
    fc.assert(
      fc.property(fc.oneof(fc.string(), nearMisses), (text) => {
        const parsed = parseBillingPeriod(text);
        const form = /^2\d{3}(-(W\d{2}|\d{2}(-\d{2})?))?$/;
        expect(parsed.ok ? form.test(parsed.period) : parsed.problem.length > 0).toBe(true);
      }),
      { numRuns: 5000 },
    );
  });
});

describe('the bounds of a period', () => {
  test.each([
    ['2026-11', 'UTC', '2026-11-01T00:00:00Z', '2026-12-01T00:00:00Z'],
    ['2026', 'UTC', '2026-01-01T00:00:00Z', '2027-01-01T00:00:00Z'],
    ['2026-W48', 'UTC', '2026-11-23T00:00:00Z', '2026-11-30T00:00:00Z'],
    ['2026-W53', 'UTC', '2026-12-28T00:00:00Z', '2027-01-04T00:00:00Z'],
    ['2026-11', 'Europe/Berlin', '2026-10-31T23:00:00Z', '2026-11-30T23:00:00Z'],
    ['2026-03', 'Europe/Berlin', '2026-02-28T23:00:00Z', '2026-03-31T22:00:00Z'],
    ['2026-03-29', 'Europe/Berlin', '2026-03-28T23:00:00Z', '2026-03-29T22:00:00Z'],
    ['2026-10-25', 'Europe/Berlin', '2026-10-24T22:00:00Z', '2026-10-25T23:00:00Z'],
    // Midnight was skipped: the day began at 01:00.
    ['2018-11-04', 'America/Sao_Paulo', '2018-11-04T03:00:00Z', '2018-11-05T02:00:00Z'],
    // Midnight was set back to 23:00: the day before had 25 hours.
    ['2018-02-17', 'America/Sao_Paulo', '2018-02-17T02:00:00Z', '2018-02-18T03:00:00Z'],
    // The day was left out altogether.
    ['2011-12-30', 'Pacific/Apia', '2011-12-30T10:00:00Z', '2011-12-30T10:00:00Z'],
  ])('%s in %s are %s and %s', (...[text, zone, start, end]) => {
    expect(periodBounds(period(text), zone)).toEqual({ startMs: iso(start), endMs: iso(end) });
  });

  test('are 23 and 25 hours apart on the two days on which Berlin changes its clocks', () => {
    const hours = (text: string) => {
      const { startMs, endMs } = periodBounds(period(text), 'Europe/Berlin');
      return (endMs - startMs) / HOUR;
    };
    expect([hours('2026-03-28'), hours('2026-03-29'), hours('2026-10-25')]).toEqual([24, 23, 25]);
  });

  test.each(GRANULARITIES)(
    'J9: leave the instant of an end to the next %s alone',
    (granularity) => {
      const current = periodContaining(iso('2026-03-29T12:00:00Z'), granularity, 'Europe/Berlin');
      const { endMs } = periodBounds(current, 'Europe/Berlin');
      expect(periodContaining(endMs - 1, granularity, 'Europe/Berlin')).toBe(current);
      expect(periodContaining(endMs, granularity, 'Europe/Berlin')).toBe(nextPeriod(current));
    },
  );

  test('J6: give every day of 2026 in Berlin exactly one period, with no hour left out or billed twice', () => {
    let current = period('2026-01-01');
    let expectedStart = periodBounds(current, 'Europe/Berlin').startMs;
    let days = 0;
    while (current.startsWith('2026')) {
      const { startMs, endMs } = periodBounds(current, 'Europe/Berlin');
      expect(startMs).toBe(expectedStart);
      expectedStart = endMs;
      current = nextPeriod(current);
      days += 1;
    }
    expect(days).toBe(365);
    expect(expectedStart).toBe(periodBounds(period('2026'), 'Europe/Berlin').endMs);
  });

  test('hold every instant in exactly one period, in every zone', () => {
    const instants = fc.integer({
      min: iso('2002-01-01T00:00:00Z'),
      max: iso('2060-01-01T00:00:00Z'),
    });
    const anywhere = fc.tuple(
      instants,
      fc.constantFrom(...GRANULARITIES),
      fc.constantFrom(...ZONES),
    );
    fc.assert(
      fc.property(anywhere, ([instantMs, granularity, zone]) => {
        const current = periodContaining(instantMs, granularity, zone);
        const { startMs, endMs } = periodBounds(current, zone);
        expect(granularityOf(current)).toBe(granularity);
        expect(startMs).toBeLessThanOrEqual(instantMs);
        expect(endMs).toBeGreaterThan(instantMs);
        expect(periodBounds(nextPeriod(current), zone).startMs).toBe(endMs);
        expect(periodBounds(previousPeriod(current), zone).endMs).toBe(startMs);
        expect(previousPeriod(nextPeriod(current))).toBe(current);
      }),
      { numRuns: 2000 },
    );
  });

  test('hold an instant in the new day when the clocks went back behind its midnight', () => {
    // Newfoundland set 00:01 back to 23:01: the wall shows November 6th once more, but that day
    // has been billed to its end.
    const afterMidnight = iso('2010-11-07T02:30:00Z');
    const shownAgain = afterMidnight + 30 * 60_000;
    expect(periodContaining(afterMidnight - 1, 'day', 'America/St_Johns')).toBe('2010-11-06');
    expect(periodContaining(afterMidnight, 'day', 'America/St_Johns')).toBe('2010-11-07');
    expect(periodContaining(shownAgain, 'day', 'America/St_Johns')).toBe('2010-11-07');
  });

  test.each(ZONES)(
    'follow one another without gap or overlap around each change of clocks in %s',
    (zone) => {
      for (let day = dayNumber({ year: 2005, month: 1, day: 1 }); day < 17_000; day += 1) {
        const startMs = startOfDay(day, zone);
        expect(startMs).toBeLessThanOrEqual(startOfDay(day + 1, zone));
        // The wall shows the day, or a later one where it was skipped; a moment before, an earlier one.
        const wallDay = (ms: number) => Math.floor((ms + zoneOffsetMs(ms, zone)) / 86_400_000);
        expect(wallDay(startMs)).toBeGreaterThanOrEqual(day);
        expect(wallDay(startMs - 1)).toBeLessThan(day);
      }
    },
  );
});

describe('the neighbours of a period', () => {
  test.each([
    ['2026-12', '2027-01'],
    ['2026-02-28', '2026-03-01'],
    ['2024-02-28', '2024-02-29'],
    ['2026-W53', '2027-W01'],
    ['2025-W52', '2026-W01'],
    ['2026', '2027'],
  ])('%s is followed by %s', (earlier, later) => {
    expect(nextPeriod(period(earlier))).toBe(later);
    expect(previousPeriod(period(later))).toBe(earlier);
  });
});

describe('an anchor day', () => {
  const text = (date: { year: number; month: number; day: number }) =>
    [date.year, date.month, date.day].map((part) => String(part).padStart(2, '0')).join('-');

  test('J2: of 31 falls on the last day of short months and returns to the 31st', () => {
    const dates = [1, 2, 3, 4, 5].map((month) => text(anchorDate(31, 2024, month)));
    expect(dates).toEqual(['2024-01-31', '2024-02-29', '2024-03-31', '2024-04-30', '2024-05-31']);
  });

  test('J3, J5: of 31 is March 31st two months on from January, whatever February did', () => {
    expect(text(anchorDate(31, 2024, 1 + 2))).toBe('2024-03-31');
  });

  test('J4: of 31 does not skip February when it is one month on from January', () => {
    expect(text(anchorDate(31, 2026, 1 + 1))).toBe('2026-02-28');
  });

  test('counts months on over the end of the year, and back', () => {
    expect(text(anchorDate(31, 2025, 14))).toBe('2026-02-28');
    expect(text(anchorDate(30, 2026, 0))).toBe('2025-12-30');
    expect(text(anchorDate(30, 2026, -10))).toBe('2025-02-28');
  });

  test.each([0, 32, 1.5])('of %d is refused', (anchorDay) => {
    expect(() => anchorDate(anchorDay, 2026, 1)).toThrow(RangeError);
  });
});

describe('the calendar', () => {
  test('agrees with the Date of JavaScript on every day', () => {
    fc.assert(
      fc.property(fc.integer({ min: -1_000_000, max: 1_000_000 }), (days) => {
        const { year, month, day } = civilDate(days);
        const date = new Date(days * 86_400_000);
        expect([year, month, day]).toEqual([
          date.getUTCFullYear(),
          date.getUTCMonth() + 1,
          date.getUTCDate(),
        ]);
        expect(dayNumber({ year, month, day })).toBe(days);
      }),
      { numRuns: 5000 },
    );
  });

  test.each([
    ['2021-01-03', 2020, 53],
    ['2021-01-04', 2021, 1],
    ['2024-12-30', 2025, 1],
    ['2027-01-03', 2026, 53],
  ])('puts %s into the ISO year %i, week %i', (date, year, week) => {
    expect(isoWeek(iso(`${date}T00:00:00Z`) / 86_400_000)).toEqual({ year, week });
  });

  test('knows a time zone from a made-up one', () => {
    expect([isTimeZone('UTC'), isTimeZone('Europe/Berlin'), isTimeZone('Mars/Olympus')]).toEqual([
      true,
      true,
      false,
    ]);
  });

  test.each(['utc', 'europe/berlin', 'EUROPE/BERLIN', '+05:00', '-0330'])(
    'takes no time zone that Temporal does not know: %s',
    (zone) => expect(isTimeZone(zone)).toBe(false),
  );

  test.each(['US/Pacific', 'EST5EDT', 'Etc/GMT+5', 'Asia/Calcutta'])(
    'takes the older name of a time zone: %s',
    (zone) => expect(isTimeZone(zone)).toBe(true),
  );
});
