import { assertAmountMinor } from './money.ts';

/**
 * The cap of a run: what its plan expects, × 1.10, rounded up. Integers only: in floats 110 × 1.1 is 121.00000000000001,
 * which rounds up to a sum that nobody agreed to.
 */
export function capOf(expectedMinor: number): number {
  assertAmountMinor(expectedMinor);
  if (expectedMinor <= 0) throw new RangeError(`No cap from an expected ${expectedMinor}`);
  const raised = expectedMinor + 9;
  const tenthRoundedUp = (raised - (raised % 10)) / 10;
  const capMinor = expectedMinor + tenthRoundedUp;
  assertAmountMinor(capMinor);
  return capMinor;
}
