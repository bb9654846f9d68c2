/** Customers under one leaf: with ~4.4 events each a full shard ends near 2,200 events. */
export const CUSTOMERS_PER_SHARD = 500;

/** Children of one node. Temporal allows 2,000 pending; the UI and replay like far fewer. */
export const CHILDREN_PER_NODE = 500;

/** A part of the run by places in the plan: (after, upTo]. */
export interface PlanRange {
  readonly after: number;
  readonly upTo: number;
}

/** Ranges of one level below: shards of 500 when they are few enough, else groups of shards. Pure. */
export function splitRange(range: PlanRange): readonly PlanRange[] {
  const size = range.upTo - range.after;
  let step = CUSTOMERS_PER_SHARD;
  while (size > step * CHILDREN_PER_NODE) step *= CHILDREN_PER_NODE;
  const ranges: PlanRange[] = [];
  for (let after = range.after; after < range.upTo; after += step) {
    ranges.push({ after, upTo: Math.min(after + step, range.upTo) });
  }
  return ranges;
}

/** True when the range is one leaf's. */
export function isLeaf(range: PlanRange): boolean {
  return range.upTo - range.after <= CUSTOMERS_PER_SHARD;
}

/** The leaf's number in the run, counted from 0: part of its workflow ID. */
export function shardNumber(range: PlanRange): number {
  return Math.floor(range.after / CUSTOMERS_PER_SHARD);
}
