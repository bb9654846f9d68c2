import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { MUTANTS } from '../mutants/catalogue/index.ts';
import { judge } from '../mutants/judge.ts';
import { whyNoCatcher, whyNotPlantable, type Mutant } from '../mutants/mutant.ts';
import type { CatcherRun } from '../mutants/run-tests-of.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const perMutant = (why: (mutant: Mutant) => string | null) =>
  MUTANTS.flatMap((mutant) => {
    const problem = why(mutant);
    return problem === null ? [] : [`${mutant.id}: ${problem}`];
  });

describe('the planted bugs', () => {
  it('fit the sources: the text that each one replaces stands there exactly once', () => {
    expect(perMutant((mutant) => whyNotPlantable(ROOT, mutant))).toEqual([]);
  });

  it('have a catcher each that exists, by file and title', () => {
    expect(perMutant(({ catcher }) => whyNoCatcher(ROOT, catcher))).toEqual([]);
  });

  it('have names of their own, and a row each in docs/testing.md', () => {
    expect(new Set(MUTANTS.map(({ id }) => id)).size).toBe(MUTANTS.length);
    const text = readFileSync(new URL('../../docs/testing.md', import.meta.url), 'utf8');
    const rows = [...text.matchAll(/^\| `([\w-]+)` \| (.*?) \| `(.*?)` \|$/gm)];
    expect(rows.map(([, id, bug, by]) => [id, bug, by])).toEqual(
      MUTANTS.map(({ id, bug, catcher }) => [
        id,
        bug,
        catcher.file.replace('test/', '').replace('.test.ts', ''),
      ]),
    );
  });
});

describe('a planted bug', () => {
  const [mutant] = MUTANTS;
  const run = (status: string, failure = '', broken: string | null = null): CatcherRun => ({
    tests: [{ file: 'f', title: 't', status, failure }],
    broken,
    seconds: 1,
  });
  const verdictOn = (given: CatcherRun, stoppedBy?: string) => {
    if (mutant === undefined) throw new Error('no mutants');
    return judge(stoppedBy === undefined ? mutant : { ...mutant, stoppedBy }, given).caught;
  };

  it('is caught by an assertion of the named test, or by the constraint that was named', () => {
    expect(verdictOn(run('failed', 'AssertionError: expected 2 to be 1'))).toBe(true);
    // As vitest words a failed .rejects and a failed .poll.
    for (const failure of [
      'Error: promise resolved "3" instead of rejecting',
      'Error: expected 50 to be 52 // Object.is equality',
    ]) {
      expect(verdictOn(run('failed', failure))).toBe(true);
    }
    expect(verdictOn(run('failed', 'error: charged never changes'), 'never changes')).toBe(true);
  });

  it.each([
    ['the test passes', run('passed')],
    ['the test is skipped because a hook failed', run('skipped', '', 'hook failed')],
    ['the file does not load', { tests: [], broken: 'SyntaxError: x', seconds: 1 }],
    ['the test fails by an error of the plant', run('failed', 'TypeError: x is not a function')],
    ['the test hangs', run('failed', 'Error: Test timed out in 60000ms.')],
  ])('is not caught when %s', (_what, given) => {
    expect(verdictOn(given)).toBe(false);
    expect(verdictOn(given, 'never changes')).toBe(false);
  });
});
