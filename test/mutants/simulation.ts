import type { ProjectCopy } from './copy.ts';
import type { Verdict } from './judge.ts';
import { runNode } from './processes.ts';

/** A thousand seeds take minutes; a bug that needs more is one for its named test. */
const LONGEST_SIMULATION_MS = 600_000;

/** What one simulation of a copy found. */
export interface Simulated extends Verdict {
  readonly seconds: number;
}

/**
 * Plays up to so many seeds in a copy, until one breaks an invariant. A simulation that ends without a count,
 * because the bug keeps it from running at all, has found nothing.
 */
export async function simulateIn(copy: ProjectCopy, seeds: number): Promise<Simulated> {
  const startedAt = performance.now();
  const args = ['test/simulation/main.ts', '--seeds', String(seeds)];
  const { said } = await runNode(
    copy.root,
    [...args, '--stop-at-first', '--no-shrink', '--json'],
    LONGEST_SIMULATION_MS,
  );
  return { ...readCount(said), seconds: (performance.now() - startedAt) / 1000 };
}

function readCount(said: string): Verdict {
  const lines = said.trimEnd().split('\n');
  const last = lines.findLast((line) => line.startsWith('{"seeds"'));
  if (last === undefined) return { caught: false, why: `no count: ${lines.at(-1) ?? ''}` };
  const { seeds, violations }: { seeds: number; violations: number } = JSON.parse(last);
  if (violations === 0) return { caught: false, why: `nothing broke in ${seeds} seeds` };
  const at = lines.findIndex((line) => line.endsWith(' breaks:'));
  return { caught: true, why: `seed ${seeds}: ${(lines[at + 1] ?? '').trim()}` };
}
