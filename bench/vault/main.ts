// npm run bench:vault: what the vault costs, measured beside the same calls without it.
import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Command } from '@commander-js/extra-typings';
import { measureCommits, measureLatency, measureMemory, measureRate } from './measure.ts';
import { measureWholeRuns } from './whole-run.ts';
import { startVaultBench } from './vault-bench.ts';

/** The bars of docs/testing.md. */
const BARS = {
  commitsPerPost: 2,
  latencyRatio: 1.08,
  chargesPerSecond: 200,
  wholeRunRatio: 0.85,
  /** memory after all requests against memory after the first fifth of them */
  memoryGrowth: 1.1,
} as const;

const options = new Command('bench:vault')
  .description('measure the vault: latency, rate, commits, memory, and a whole run through it')
  .option('--quick', 'a tenth of the requests, and smaller runs')
  .option('--only <part>', 'one of latency, rate, commits, memory, run')
  .option('--check', 'exit with 1 when a bar is missed')
  .option('--json', 'print the result as one JSON object on the last line')
  .parse()
  .opts();
const quick = options.quick === true;
const wants = (part: string): boolean => options.only === undefined || options.only === part;
const note = (message: string): void => void process.stderr.write(`· ${message}\n`);

process.exitCode = await main();

async function main(): Promise<number> {
  const home = mkdtempSync(path.join(tmpdir(), 'chargeonce-bench-'));
  // As root, PostgreSQL runs as another user, who has to pass through.
  chmodSync(home, 0o711);
  try {
    const calls = await measureCalls(home);
    const runs = wants('run') ? await measureWholeRuns(home, { quick, note }) : null;
    return report({ ...calls, ...runs });
  } finally {
    rmSync(home, { recursive: true, force: true });
  }
}

async function measureCalls(home: string): Promise<Record<string, number>> {
  if (options.only === 'run') return {};
  const bench = await startVaultBench(home);
  try {
    const result: Record<string, number> = {};
    if (wants('latency')) Object.assign(result, await measureLatency(bench, { quick, note }));
    if (wants('commits')) Object.assign(result, await measureCommits(bench, { quick, note }));
    if (wants('rate')) Object.assign(result, await measureRate(bench, { quick, note }));
    if (wants('memory')) Object.assign(result, await measureMemory(bench, { quick, note }));
    return result;
  } finally {
    await bench.close();
  }
}

function report(result: Readonly<Record<string, number>>): number {
  const missed = [
    ...((result['commitsPerPost'] ?? 0) > BARS.commitsPerPost + 0.02 ? ['commitsPerPost'] : []),
    ...((result['latencyRatio'] ?? 0) > BARS.latencyRatio ? ['latencyRatio'] : []),
    ...((result['chargesPerSecond'] ?? Infinity) < BARS.chargesPerSecond
      ? ['chargesPerSecond']
      : []),
    ...((result['wholeRunRatio'] ?? Infinity) < BARS.wholeRunRatio ? ['wholeRunRatio'] : []),
    ...((result['memoryGrowth'] ?? 0) > BARS.memoryGrowth ? ['memoryGrowth'] : []),
  ];
  for (const [name, value] of Object.entries(result)) process.stderr.write(`${name}: ${value}\n`);
  process.stderr.write(
    missed.length === 0 ? 'all bars held\n' : `bars missed: ${missed.join(', ')}\n`,
  );
  if (options.json === true) process.stdout.write(`${JSON.stringify({ ...result, missed })}\n`);
  return options.check === true && missed.length > 0 ? 1 : 0;
}
