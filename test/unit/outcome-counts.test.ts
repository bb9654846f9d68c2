import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { NO_OUTCOMES, OUTCOMES } from '../../src/domain/charge.ts';
import { addCounts, countOutcome, totalOf } from '../../src/domain/outcome-counts.ts';

const n = () => fc.nat(1_000_000);
const counts = fc.record({
  charged: n(),
  declined: n(),
  indeterminate: n(),
  blocked: n(),
  skipped: n(),
  misconfigured: n(),
});

describe('outcome counts', () => {
  it('count every outcome once, and lose none', () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...OUTCOMES)), (outcomes) => {
        const counted = outcomes.reduce(countOutcome, NO_OUTCOMES);
        expect(totalOf(counted)).toBe(outcomes.length);
        for (const outcome of OUTCOMES) {
          expect(counted[outcome]).toBe(outcomes.filter((one) => one === outcome).length);
        }
      }),
    );
  });

  it('add up, in any order', () => {
    fc.assert(
      fc.property(counts, counts, (a, b) => {
        expect(totalOf(addCounts(a, b))).toBe(totalOf(a) + totalOf(b));
        expect(addCounts(a, b)).toEqual(addCounts(b, a));
      }),
    );
  });

  it('start at zero and are not changed in place', () => {
    countOutcome(NO_OUTCOMES, 'charged');
    expect(totalOf(NO_OUTCOMES)).toBe(0);
  });
});
