import { OUTCOMES, type OutcomeCounts } from '../domain/charge.ts';
import { totalOf } from '../domain/outcome-counts.ts';

/** A Markdown table of outcomes for the Temporal UI. */
export function describeCounts(counts: OutcomeCounts): string {
  const rows = OUTCOMES.map((outcome) => `| ${outcome} | ${counts[outcome]} |`);
  return [
    '| outcome | customers |',
    '|---|---:|',
    ...rows,
    `| **all** | ${totalOf(counts)} |`,
  ].join('\n');
}
