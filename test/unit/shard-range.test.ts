import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  CHILDREN_PER_NODE,
  CUSTOMERS_PER_SHARD,
  isLeaf,
  shardNumber,
  splitRange,
  type PlanRange,
} from '../../src/domain/shard-range.ts';

/** Every leaf below a range, and the widest node seen on the way. */
function leavesOf(range: PlanRange): { leaves: PlanRange[]; widest: number; depth: number } {
  if (isLeaf(range)) return { leaves: [range], widest: 0, depth: 0 };
  const below = splitRange(range);
  const parts = below.map(leavesOf);
  return {
    leaves: parts.flatMap((part) => part.leaves),
    widest: Math.max(below.length, ...parts.map((part) => part.widest)),
    depth: 1 + Math.max(...parts.map((part) => part.depth)),
  };
}

const size = fc.oneof(
  fc.integer({ min: 1, max: 10_000_000 }),
  fc.constantFrom(1, 499, 500, 501, 999, 1_000, 249_999, 250_000, 250_001, 500_001, 10_000_000),
);

describe('splitRange', () => {
  it('covers every place exactly once, in order', () => {
    fc.assert(
      fc.property(size, (upTo) => {
        const { leaves } = leavesOf({ after: 0, upTo });
        // One expectation, not one for each of 20,000 leaves.
        const gaps = leaves.filter((leaf, i) => leaf.after !== (leaves[i - 1]?.upTo ?? 0));
        expect(gaps).toEqual([]);
        expect(leaves.at(-1)?.upTo).toBe(upTo);
      }),
      { numRuns: 60 },
    );
  }, 60_000);

  it('keeps every node at 500 children and every leaf at 500 customers', () => {
    fc.assert(
      fc.property(size, (upTo) => {
        const { leaves, widest, depth } = leavesOf({ after: 0, upTo });
        expect(widest).toBeLessThanOrEqual(CHILDREN_PER_NODE);
        expect(
          leaves.every(
            (leaf) => leaf.upTo - leaf.after <= CUSTOMERS_PER_SHARD && leaf.upTo > leaf.after,
          ),
        ).toBe(true);
        expect(depth).toBeLessThanOrEqual(2);
      }),
      { numRuns: 60 },
    );
  }, 60_000);

  it('gives every leaf a number of its own', () => {
    fc.assert(
      fc.property(size, (upTo) => {
        const numbers = leavesOf({ after: 0, upTo }).leaves.map(shardNumber);
        expect(new Set(numbers).size).toBe(numbers.length);
      }),
      { numRuns: 40 },
    );
  }, 60_000);

  it('splits nothing into nothing, and a rest after a continuation into what is left', () => {
    expect(splitRange({ after: 0, upTo: 0 })).toEqual([]);
    expect(splitRange({ after: 730, upTo: 1_000 })).toEqual([{ after: 730, upTo: 1_000 }]);
    expect(isLeaf({ after: 500, upTo: 1_000 })).toBe(true);
    expect(isLeaf({ after: 500, upTo: 1_001 })).toBe(false);
  });
});
