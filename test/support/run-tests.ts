// The README's test command: every vitest project, and one closing line that says how many passed.
// Most tests wait for servers and clocks, so four groups go side by side: one after the other they take
// longer than a CI may. With arguments, vitest runs as it is told.
import { spawn } from 'node:child_process';
import { globSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { makePostgresTemplate } from './postgres-template.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const VITEST = fileURLToPath(new URL('../../node_modules/vitest/vitest.mjs', import.meta.url));

/** Roughly the same length each; the first is shown as it goes. */
const GROUPS = [
  ['unit', 'integration'],
  ['vault', 'simulation', 'chaos'],
  ['http', 'failures', 'embedded'],
  ['workflow', 'e2e'],
];

interface Report {
  readonly numPassedTests: number;
  readonly testResults: readonly {
    /** the file */
    readonly name: string;
    readonly status: string;
    /** why the file did not load; else empty */
    readonly message: string;
    readonly assertionResults: readonly {
      readonly fullName: string;
      readonly status: string;
      readonly failureMessages: readonly string[] | null;
    }[];
  }[];
}

interface Counts {
  readonly passed: number;
  readonly failed: number;
  readonly files: readonly string[];
  /** what failed, and why: file, test, message */
  readonly failures: readonly string[];
}

/** Lines shown again of each failure. */
const LINES_OF_A_FAILURE = 25;

const folder = mkdtempSync(path.join(tmpdir(), 'chargeonce-test-'));
const asked = process.argv.slice(2);
const shared: Record<string, string> = {
  // Tests start hundreds of processes of ours: compiled once, each is there a third sooner.
  NODE_COMPILE_CACHE: path.join(folder, 'compiled'),
  // And fifty Temporal servers, with the lazier collector that the embedded one has.
  GOGC: '400',
};
try {
  Object.assign(shared, await makePostgresTemplate(folder));
  const counts = await runAll();
  const passed = counts.reduce((sum, count) => sum + count.passed, 0);
  const forgotten = asked.length > 0 ? [] : notIn(counts.flatMap((count) => count.files));
  for (const file of forgotten)
    process.stderr.write(`${file} belongs to no group and did not run\n`);
  const failed = counts.reduce((sum, count) => sum + count.failed, forgotten.length);
  // Again at the end: four groups print thousands of lines, and a failure must be found without reading them.
  for (const failure of counts.flatMap((count) => count.failures)) {
    process.stdout.write(`\nFAILED ${failure}\n\n`);
  }
  process.stdout.write(`${passed} passed, ${failed} failed\n`);
  // No test at all is no success.
  process.exitCode = failed === 0 && passed > 0 ? 0 : 1;
} finally {
  rmSync(folder, { recursive: true, force: true });
}

async function runAll(): Promise<readonly Counts[]> {
  if (asked.length > 0) return [await runVitest('all', asked, true)];
  const runGroup = (projects: readonly string[], live: boolean): Promise<Counts> =>
    runVitest(
      projects.join('-'),
      projects.flatMap((name) => ['--project', name]),
      live,
    );
  return Promise.all(GROUPS.map((projects, group) => runGroup(projects, group === 0)));
}

/** Runs vitest; its output is shown as it comes, or, of a second group, when it is over. */
async function runVitest(name: string, args: readonly string[], live: boolean): Promise<Counts> {
  const report = path.join(folder, `${name}.json`);
  const reporters = ['--reporter=default', '--reporter=json', `--outputFile.json=${report}`];
  const child = spawn(process.execPath, [VITEST, 'run', ...reporters, ...args], {
    stdio: live ? 'inherit' : ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, ...shared },
  });
  let held = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding('utf8').on('data', (text: string) => {
      held += text;
    });
  }
  const exitCode = await new Promise<number | null>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', resolve);
  });
  process.stdout.write(held);
  return readCounts(name, report, exitCode);
}

function readCounts(name: string, report: string, exitCode: number | null): Counts {
  let parsed: Report;
  try {
    parsed = JSON.parse(readFileSync(report, 'utf8'));
  } catch {
    const ended = `group ${name} ended with exit code ${exitCode} and left no report`;
    return { passed: 0, failed: 1, files: [], failures: [ended] };
  }
  const failures = parsed.testResults.flatMap((file) => {
    const where = path.relative(ROOT, file.name);
    // A file that does not load fails the run without failing a test.
    if (file.status === 'failed' && file.assertionResults.length === 0) {
      return [inShort(where, file.message)];
    }
    return file.assertionResults
      .filter((test) => test.status === 'failed')
      .map((test) =>
        inShort(`${where}: ${test.fullName}`, (test.failureMessages ?? []).join('\n')),
      );
  });
  // So does an error outside of a test.
  if (exitCode !== 0 && failures.length === 0) {
    failures.push(`group ${name}: exit code ${exitCode}, and no test failed; its output says why`);
  }
  return {
    passed: parsed.numPassedTests,
    failed: failures.length,
    files: parsed.testResults.map((file) => file.name),
    failures,
  };
}

function inShort(where: string, message: string): string {
  return `${where}\n${message.split('\n').slice(0, LINES_OF_A_FAILURE).join('\n')}`;
}

/** Test files that no group ran: a new folder, or a pattern that misses one, must not go unnoticed. */
function notIn(ran: readonly string[]): readonly string[] {
  // `npm run conformance` has its own.
  return globSync('test/**/*.test.ts', { cwd: ROOT, exclude: ['test/conformance/**'] })
    .map((file) => path.join(ROOT, file))
    .filter((file) => !ran.includes(file));
}
