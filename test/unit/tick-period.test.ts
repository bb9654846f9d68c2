import { describe, expect, it } from 'vitest';
import { periodOfTick } from '../../src/domain/tick-period.ts';

const FIRST_OF_SEPTEMBER = Date.UTC(2026, 8, 1);

describe('the period of a tick', () => {
  it('is the one that begins at the nominal time when billing in advance', () => {
    const calendar = { granularity: 'month', zone: 'UTC' } as const;
    expect(periodOfTick(FIRST_OF_SEPTEMBER, calendar)).toBe('2026-09');
    expect(periodOfTick(FIRST_OF_SEPTEMBER, { ...calendar, bills: 'current' })).toBe('2026-09');
  });

  it('is the one that ended at the nominal time when billing in arrears', () => {
    const calendar = { granularity: 'month', zone: 'UTC', bills: 'previous' } as const;
    expect(periodOfTick(FIRST_OF_SEPTEMBER, calendar)).toBe('2026-08');
    expect(periodOfTick(Date.UTC(2026, 0, 1), calendar)).toBe('2025-12');
  });

  it('is reckoned in the zone of the calendar, also where UTC is in another month', () => {
    // Midnight of 1 September in Berlin is still August in UTC.
    const midnightInBerlin = Date.UTC(2026, 7, 31, 22);
    const calendar = { granularity: 'month', zone: 'Europe/Berlin' } as const;
    expect(periodOfTick(midnightInBerlin, calendar)).toBe('2026-09');
    expect(periodOfTick(midnightInBerlin, { ...calendar, bills: 'previous' })).toBe('2026-08');
  });

  it('does not depend on how late the tick is within its period', () => {
    const calendar = { granularity: 'week', zone: 'UTC', bills: 'previous' } as const;
    const monday = Date.UTC(2026, 10, 23);
    expect(periodOfTick(monday, calendar)).toBe(periodOfTick(monday + 3 * 86_400_000, calendar));
  });
});
