// npm run bench: a whole run on this machine, beside a plain loop, and at Stripe's rate limit.
import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Command, InvalidArgumentError } from '@commander-js/extra-typings';
import { measureLoop } from './loop.ts';
import { benchRun, measureRun, type RunMeasures } from './measure-run.ts';
import { measureRateLimit, type RateMeasures } from './rate-limit.ts';
import { openBenchStack } from './stack.ts';

/** The bars of docs/testing.md for a machine of two cores with every part on it. */
const BARS = {
  customersPerSecond: 25,
  eventsPerCustomer: 16,
  commitsPerCustomer: 4,
  workerPeakRssMb: 600,
  rateUtilisation: 0.95,
  http429: 0,
} as const;

const QUICK = { customers: 1_000, loop: 300, limited: 480 };
const FULL = { customers: 5_000, loop: 1_000, limited: 1_440 };
/** What one node of a run may hold of the history's limit. */
const MAX_HISTORY_EVENTS = 5_000;

const options = new Command('bench')
  .description('measure a whole run on the embedded stack, a plain loop, and the charge limit')
  .option('--quick', `${QUICK.customers} customers instead of ${FULL.customers}`)
  .option('--customers <n>', 'customers of the whole run', count)
  .option('--only-run', 'leave out the loop and the limit: for large runs')
  .option('--check', 'exit with 1 when a bar is missed')
  .option('--json', 'print the result as one JSON object on the last line')
  .parse()
  .opts();
const sizes = options.quick === true ? QUICK : FULL;
const customers = options.customers ?? sizes.customers;

process.exitCode = await main();

async function main(): Promise<number> {
  const home = mkdtempSync(path.join(tmpdir(), 'chargeonce-bench-'));
  // As root, PostgreSQL runs as another user, who has to pass through.
  chmodSync(home, 0o711);
  const note = (message: string): void => void process.stderr.write(`· ${message}\n`);
  try {
    note(`a run of ${customers} customers, no limit`);
    const { run, loop } = await unlimited(home, note);
    const limit = options.onlyRun === true ? null : await limited(home, note);
    return report(run, loop, limit);
  } finally {
    rmSync(home, { recursive: true, force: true });
  }
}

async function unlimited(home: string, note: (message: string) => void) {
  const platform = await openBenchStack({ home, chargesPerSecond: 0, endpointRate: 0, note });
  try {
    const run = await measureRun(platform, benchRun('2026-01'), customers);
    if (options.onlyRun === true) return { run, loop: null };
    note(`a plain loop over ${sizes.loop} of them`);
    return { run, loop: await measureLoop(platform, benchRun('2026-02'), sizes.loop) };
  } finally {
    await platform.close();
  }
}

async function limited(home: string, note: (message: string) => void): Promise<RateMeasures> {
  note(`${sizes.limited} customers at 24 charges/s, Stripe's limit at 25`);
  const platform = await openBenchStack({ home, chargesPerSecond: 24, endpointRate: 25, note });
  try {
    return await measureRateLimit(platform, benchRun('2026-03'), sizes.limited);
  } finally {
    await platform.close();
  }
}

function report(
  run: RunMeasures,
  loop: { customersPerSecond: number } | null,
  limit: RateMeasures | null,
): number {
  const result = {
    ...run,
    loopCustomersPerSecond: loop?.customersPerSecond ?? null,
    ratioToLoop:
      loop === null
        ? null
        : Math.round((run.customersPerSecond / loop.customersPerSecond) * 100) / 100,
    rateUtilisation: limit?.rateUtilisation ?? null,
    rateUtilisationWholeRun: limit?.rateUtilisationWholeRun ?? null,
    http429: limit?.http429 ?? null,
  };
  const missed = [
    ...(result.customersPerSecond < BARS.customersPerSecond ? ['customersPerSecond'] : []),
    ...(result.eventsPerCustomer > BARS.eventsPerCustomer ? ['eventsPerCustomer'] : []),
    ...(result.commitsPerCustomer > BARS.commitsPerCustomer + 0.05 ? ['commitsPerCustomer'] : []),
    ...(result.workerPeakRssMb > BARS.workerPeakRssMb ? ['workerPeakRssMb'] : []),
    ...(result.longestHistory.events > MAX_HISTORY_EVENTS ? ['longestHistory'] : []),
    ...(limit !== null && limit.rateUtilisation < BARS.rateUtilisation ? ['rateUtilisation'] : []),
    ...(limit !== null && limit.http429 > BARS.http429 ? ['http429'] : []),
  ];
  for (const [name, value] of Object.entries(result)) {
    process.stderr.write(`${name}: ${JSON.stringify(value)}\n`);
  }
  process.stderr.write(
    missed.length === 0 ? 'all bars held\n' : `bars missed: ${missed.join(', ')}\n`,
  );
  if (options.json === true) process.stdout.write(`${JSON.stringify({ ...result, missed })}\n`);
  return options.check === true && missed.length > 0 ? 1 : 0;
}

function count(text: string): number {
  const value = Number(text);
  if (Number.isInteger(value) && value > 0 && value <= 1_000_000) return value;
  throw new InvalidArgumentError('a whole number from 1 to 1,000,000');
}
