// The README's test command: every vitest project, and one closing line that says how many passed.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const VITEST = fileURLToPath(new URL('../../node_modules/vitest/vitest.mjs', import.meta.url));

const folder = mkdtempSync(path.join(tmpdir(), 'chargeonce-test-'));
const report = path.join(folder, 'report.json');
const { status } = spawnSync(
  process.execPath,
  [
    VITEST,
    'run',
    '--reporter=default',
    '--reporter=json',
    `--outputFile.json=${report}`,
    ...process.argv.slice(2),
  ],
  { stdio: 'inherit' },
);
const { passed, failed } = readCounts();
rmSync(folder, { recursive: true, force: true });
process.stdout.write(`${passed} passed, ${failed} failed\n`);
// A file that does not load fails the run without failing a test; no test at all is no success.
process.exitCode = status === 0 && failed === 0 && passed > 0 ? 0 : 1;

interface Report {
  readonly numPassedTests: number;
  readonly numFailedTests: number;
  readonly testResults: readonly {
    readonly status: string;
    readonly assertionResults: readonly unknown[];
  }[];
}

function readCounts(): { passed: number; failed: number } {
  try {
    const parsed: Report = JSON.parse(readFileSync(report, 'utf8'));
    const broken = parsed.testResults.filter(
      (file) => file.status === 'failed' && file.assertionResults.length === 0,
    ).length;
    return { passed: parsed.numPassedTests, failed: parsed.numFailedTests + broken };
  } catch {
    return { passed: 0, failed: 1 };
  }
}
