import { readFileSync, rmSync } from 'node:fs';
import path from 'node:path';
import type { ProjectCopy } from './copy.ts';
import { titlePattern, type Catcher } from './mutant.ts';
import { runNode } from './processes.ts';

/** How a test that a catcher names went. */
interface TestResult {
  readonly file: string;
  readonly title: string;
  readonly status: string;
  /** the first failure's text; empty when it passed */
  readonly failure: string;
}

/** What vitest says of a catcher: the tests it named, or why there are none. */
export interface CatcherRun {
  readonly tests: readonly TestResult[];
  /** the file did not load, a hook failed, or vitest gave no report */
  readonly broken: string | null;
  readonly seconds: number;
}

interface Report {
  readonly testResults: readonly {
    readonly name: string;
    readonly message: string;
    readonly assertionResults: readonly {
      readonly title: string;
      readonly status: string;
      readonly failureMessages: readonly string[];
    }[];
  }[];
}

/** Longer than a file takes with a bug in it on a busy machine; one that hangs has not caught. */
const LONGEST_START_MS = 120_000;
const LONGEST_FILE_MS = 60_000;

/** Runs named tests of one project in a copy; at most one run per copy at a time. */
export async function runCatchers(
  copy: ProjectCopy,
  catchers: readonly [Catcher, ...Catcher[]],
): Promise<CatcherRun> {
  const files = [...new Set(catchers.map(({ file }) => file))];
  const titles = [...new Set(catchers.map(({ title }) => titlePattern(title)))];
  const report = path.join(copy.out, 'report.json');
  rmSync(report, { force: true });
  const startedAt = performance.now();
  const vitest = path.join('node_modules', 'vitest', 'vitest.mjs');
  const named = ['-t', `(${titles.join('|')})$`];
  const reporters = ['--reporter=json', `--outputFile=${report}`, '--no-color'];
  const args = [vitest, 'run', '--project', catchers[0].project, ...files, ...named, ...reporters];
  const limitMs = LONGEST_START_MS + files.length * LONGEST_FILE_MS;
  const { said } = await runNode(copy.root, args, limitMs);
  const seconds = (performance.now() - startedAt) / 1000;
  let parsed: Report;
  try {
    parsed = JSON.parse(readFileSync(report, 'utf8'));
  } catch {
    return { tests: [], broken: said.slice(-2_000) || 'vitest gave no report', seconds };
  }
  return { ...readReport(copy.root, parsed, catchers), seconds };
}

function readReport(
  root: string,
  report: Report,
  catchers: readonly Catcher[],
): Omit<CatcherRun, 'seconds'> {
  const tests: TestResult[] = [];
  const problems: string[] = [];
  for (const suite of report.testResults) {
    const file = path.relative(root, suite.name);
    if (suite.message !== '') problems.push(`${file}: ${suite.message}`);
    const wanted = catchers.filter((catcher) => catcher.file === file);
    for (const { title, status, failureMessages } of suite.assertionResults) {
      if (!wanted.some((catcher) => isNamedBy(title, catcher))) continue;
      tests.push({ file, title, status, failure: failureMessages[0] ?? '' });
    }
  }
  return { tests, broken: problems.length === 0 ? null : problems.join('\n').slice(0, 2_000) };
}

/** Whether a test's title is one that the catcher names. */
export function isNamedBy(title: string, catcher: Catcher): boolean {
  return new RegExp(`^${titlePattern(catcher.title)}$`, 's').test(title);
}
