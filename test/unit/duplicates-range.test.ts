import { describe, expect, it } from 'vitest';
import { duplicatesRange } from '../../src/cli/duplicates-range.ts';

describe('the range of chargeonce duplicates', () => {
  const range = (from: string | undefined, to: string | undefined, zone = 'UTC') => {
    const nowMs = Date.parse('2026-11-29T12:00:00Z');
    const bounds = duplicatesRange({ from, to, granularity: 'month', zone, nowMs });
    return [bounds.fromMs, bounds.toMs].map((ms) => new Date(ms).toISOString().slice(0, 16));
  };

  it.each<[string | undefined, string | undefined, readonly string[]]>([
    [undefined, undefined, ['2026-10-01T00:00', '2026-12-01T00:00']],
    ['2026-01', undefined, ['2026-01-01T00:00', '2026-12-01T00:00']],
    ['2026-11-03', '2026-11-04', ['2026-11-03T00:00', '2026-11-05T00:00']],
    ['2025', '2025', ['2025-01-01T00:00', '2026-01-01T00:00']],
  ])('from %s to %s is %o', (from, to, bounds) => {
    expect(range(from, to)).toEqual(bounds);
  });

  it('is cut in the billing zone', () => {
    expect(range('2026-11', '2026-11', 'Europe/Berlin')).toEqual([
      '2026-10-31T23:00',
      '2026-11-30T23:00',
    ]);
  });

  it('that ends before it starts, or is no date, is refused with what to write', () => {
    expect(() => range('2026-11', '2026-10')).toThrow('after');
    expect(() => range('yesterday', undefined)).toThrow('write a day');
  });
});
