import type { Mutant } from './mutant.ts';
import type { CatcherRun } from './run-tests-of.ts';

/** How a planted bug fared. Only `caught` is a pass. */
export interface Verdict {
  readonly caught: boolean;
  readonly why: string;
}

/**
 * Caught means that the named test ran and failed for the right reason: by an assertion of its own, or,
 * where the catalogue says so, because a constraint stopped the bug. A file that does not load, a hook
 * that fails and a test that hangs say nothing about the bug.
 */
export function judge(mutant: Mutant, run: CatcherRun): Verdict {
  const failed = run.tests.filter((test) => test.status === 'failed');
  const right = failed.find(({ failure }) => isRightFailure(mutant, failure));
  if (right !== undefined) return { caught: true, why: firstLine(right.failure) };
  if (failed[0] !== undefined) {
    return { caught: false, why: `failed for another reason: ${firstLine(failed[0].failure)}` };
  }
  if (run.broken !== null) return { caught: false, why: `did not run: ${firstLine(run.broken)}` };
  const passed = run.tests.filter((test) => test.status === 'passed').length;
  return { caught: false, why: passed > 0 ? 'the test passed' : 'the test did not run' };
}

/** How vitest names a failed `expect`; after `.rejects`, `.resolves` and `.poll` it is a plain Error. */
const ASSERTION =
  /^(AssertionError: |Error: (expected .* to |promise resolved .* instead of rejecting|promise rejected .* instead of resolving))/;

function isRightFailure({ stoppedBy }: Mutant, failure: string): boolean {
  return ASSERTION.test(failure) || (stoppedBy !== undefined && failure.includes(stoppedBy));
}

function firstLine(text: string): string {
  return (text.trim().split('\n')[0] ?? '').slice(0, 200);
}
