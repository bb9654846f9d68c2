import { NO_OUTCOMES, OUTCOMES, type Outcome, type OutcomeCounts } from './charge.ts';

/** One more of an outcome. */
export function countOutcome(counts: OutcomeCounts, outcome: Outcome): OutcomeCounts {
  return { ...counts, [outcome]: counts[outcome] + 1 };
}

export function addCounts(a: OutcomeCounts, b: OutcomeCounts): OutcomeCounts {
  const sum = { ...NO_OUTCOMES };
  for (const outcome of OUTCOMES) sum[outcome] = a[outcome] + b[outcome];
  return sum;
}

export function totalOf(counts: OutcomeCounts): number {
  return OUTCOMES.reduce((sum, outcome) => sum + counts[outcome], 0);
}
