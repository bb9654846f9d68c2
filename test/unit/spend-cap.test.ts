import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { capOf } from '../../src/domain/spend-cap.ts';

describe('capOf', () => {
  it.each([
    [1, 2],
    [9, 10],
    [10, 11],
    [11, 13],
    // In floats 1.1 × this is 121.00000000000001, and rounds up to 122.
    [110, 121],
    [99_999_999, 109_999_999],
    [1_000_000_000_000_000, 1_100_000_000_000_000],
  ])('of an expected %d is %d', (expectedMinor, capMinor) => {
    expect(capOf(expectedMinor)).toBe(capMinor);
  });

  it('is the smallest whole sum that is no less than eleven tenths, for any expected sum', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 8_188_179_999_999_999 }), (expectedMinor) => {
        const tenfold = BigInt(capOf(expectedMinor)) * 10n;
        const elevenfold = BigInt(expectedMinor) * 11n;
        expect(tenfold >= elevenfold && tenfold - 10n < elevenfold).toBe(true);
      }),
    );
  });

  it.each([0, -1, 1.5, Number.NaN, Number.MAX_SAFE_INTEGER])('refuses %d', (expectedMinor) => {
    expect(() => capOf(expectedMinor)).toThrow(RangeError);
  });
});
