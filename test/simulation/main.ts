// `npm run simulate`: the real workflows, activities, SQL and Stripe client in one process on virtual time.
import { spawn } from 'node:child_process';
import { parseArgs } from 'node:util';
import { installFakes } from './hooks.ts';
import { installVirtualTime, wallMs } from './virtual-time.ts';

// Before anything of src is loaded.
installVirtualTime();
installFakes();
const { SimulatedPostgres } = await import('./database.ts');
const { PLANTS } = await import('./plants.ts');
const { planOf } = await import('./plan.ts');
const { describePlan, shrink } = await import('./shrink.ts');
const { simulate } = await import('./simulate.ts');
const { neverSeen, SEEDS_TO_SEE_ALL } = await import('./sometimes.ts');

const HELP = `npm run simulate -- [options]

Plays the billing run of each seed on virtual time, with faults at every call to the database and to
Stripe, and checks the invariants at the end. docs/testing.md says what is real and what is not.

  --seeds N         how many seeds (200)
  --seed S          the first one (1)
  --stop-at-first   stops at the first seed that fails
  --workers N       processes side by side (1)
  --trace           prints the timeline of every seed
  --hashes          prints the hash of every seed's timeline
  --no-shrink       leaves a failing plan as it is
  --plant NAME      with a bug planted in the gateway: ${Object.keys(PLANTS).join(', ')}
  --json            one JSON object as the last line: {"seeds", "violations", "virtualDays", …}

Exit code 0: no violation, and, from ${SEEDS_TO_SEE_ALL} seeds on, everything that must be seen was seen.
`;

/** The database lives in memory and grows with what was ever written; a new one takes seconds. */
const WORLDS_PER_DATABASE = 500;
const PROGRESS_EVERY_MS = 10_000;
const LINES_SHOWN = 240;

type Database = Awaited<ReturnType<typeof SimulatedPostgres.open>>;

interface Options {
  readonly seeds: number;
  readonly seed: number;
  readonly workers: number;
  readonly stopAtFirst: boolean;
  readonly trace: boolean;
  readonly hashes: boolean;
  readonly shrink: boolean;
  readonly json: boolean;
  readonly part: boolean;
  readonly plant: string | undefined;
}

interface Summary {
  seeds: number;
  violations: number;
  virtualDays: number;
  failingSeeds: number[];
  charges: number;
  sends: number;
  seen: Record<string, number>;
}

const options = readOptions();
const startedMs = wallMs();
const summary = options.workers > 1 ? await runWorkers(options) : await runSeeds(options);
finish(summary);

function readOptions(): Options {
  const { values } = parseArgs({
    options: {
      seeds: { type: 'string', default: '200' },
      seed: { type: 'string', default: '1' },
      workers: { type: 'string', default: '1' },
      'stop-at-first': { type: 'boolean', default: false },
      trace: { type: 'boolean', default: false },
      hashes: { type: 'boolean', default: false },
      'no-shrink': { type: 'boolean', default: false },
      json: { type: 'boolean', default: false },
      // of a larger run, which says how it ended
      part: { type: 'boolean', default: false },
      plant: { type: 'string' },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) {
    process.stdout.write(HELP);
    process.exit(0);
  }
  if (values.plant !== undefined && !(values.plant in PLANTS)) {
    process.stderr.write(`no such bug to plant: ${values.plant}\n`);
    process.exit(2);
  }
  return {
    seeds: count('--seeds', values.seeds),
    seed: count('--seed', values.seed),
    workers: count('--workers', values.workers),
    stopAtFirst: values['stop-at-first'],
    trace: values.trace,
    hashes: values.hashes,
    shrink: !values['no-shrink'],
    json: values.json,
    part: values.part,
    plant: values.plant,
  };
}

function count(name: string, text: string): number {
  const value = Number(text);
  if (Number.isSafeInteger(value) && value >= 1) return value;
  process.stderr.write(`${name} must be a whole number from 1 on, not ${text}\n`);
  process.exit(2);
}

async function runSeeds(of: Options): Promise<Summary> {
  const total: Summary = {
    seeds: 0,
    violations: 0,
    virtualDays: 0,
    failingSeeds: [],
    charges: 0,
    sends: 0,
    seen: {},
  };
  let postgres = await SimulatedPostgres.open();
  let saidMs = wallMs();
  for (let seed = of.seed; seed < of.seed + of.seeds; seed += 1) {
    if (total.seeds > 0 && total.seeds % WORLDS_PER_DATABASE === 0) {
      await postgres.pg.close();
      postgres = await SimulatedPostgres.open();
    }
    const result = await simulate(planOf(seed), postgres, {
      keepLines: of.trace,
      plant: of.plant,
    });
    total.seeds += 1;
    total.violations += result.problems.length;
    total.virtualDays += result.virtualMs / 86_400_000;
    total.charges += result.charged;
    total.sends += result.sends;
    for (const [what, times] of result.seen) total.seen[what] = (total.seen[what] ?? 0) + times;
    for (const line of result.lines) process.stdout.write(`${line}\n`);
    if (of.hashes) process.stdout.write(`seed ${seed} ${result.hash}\n`);
    if (result.problems.length > 0) {
      total.failingSeeds.push(seed);
      await report(seed, result.problems, { postgres, shrinks: of.shrink && isFirst(total) });
      if (of.stopAtFirst) break;
    }
    if (wallMs() - saidMs > PROGRESS_EVERY_MS) {
      saidMs = wallMs();
      process.stderr.write(`${total.seeds} of ${of.seeds} seeds, ${total.violations} violations\n`);
    }
  }
  return total;
}

function isFirst(total: Summary): boolean {
  return total.failingSeeds.length === 1;
}

/** What broke, how to see it again, and the smallest plan that still breaks it. */
async function report(
  seed: number,
  problems: readonly string[],
  how: { readonly postgres: Database; readonly shrinks: boolean },
): Promise<void> {
  process.stdout.write(`\nseed ${seed} breaks:\n${problems.map((one) => `  ${one}\n`).join('')}`);
  process.stdout.write(`again: npm run simulate -- --seed ${seed} --seeds 1 --trace\n`);
  if (!how.shrinks) return;
  const broken = new Set(problems.map(invariantOf));
  const play = (smaller: Parameters<typeof simulate>[0], keepLines: boolean) =>
    simulate(smaller, how.postgres, { keepLines, plant: options.plant });
  const { plan, plays } = await shrink(planOf(seed), async (smaller) => {
    const { problems: found } = await play(smaller, false);
    return found.some((problem) => broken.has(invariantOf(problem)));
  });
  const { lines, problems: left } = await play(plan, true);
  process.stdout.write(`\nthe smallest plan that still breaks it (${plays} plays):\n`);
  for (const part of describePlan(plan)) process.stdout.write(`  ${part}\n`);
  process.stdout.write(`${left.map((one) => `  breaks ${one}\n`).join('')}its timeline:\n`);
  const tooMany = lines.length > LINES_SHOWN;
  const shown = tooMany
    ? [...lines.slice(0, LINES_SHOWN / 2), '  …', ...lines.slice(-LINES_SHOWN / 2)]
    : lines;
  for (const line of shown) process.stdout.write(`  ${line}\n`);
}

function invariantOf(problem: string): string {
  return problem.split(':')[0] ?? problem;
}

/** The seeds in equal parts, each in a process of its own. */
async function runWorkers(of: Options): Promise<Summary> {
  const size = Math.ceil(of.seeds / of.workers);
  const parts: Promise<Summary>[] = [];
  for (let first = 0; first < of.seeds; first += size) {
    const seeds = Math.min(size, of.seeds - first);
    const args = ['--seed', String(of.seed + first), '--seeds', String(seeds), '--json', '--part'];
    if (of.stopAtFirst) args.push('--stop-at-first');
    if (of.trace) args.push('--trace');
    if (of.hashes) args.push('--hashes');
    if (!of.shrink) args.push('--no-shrink');
    if (of.plant !== undefined) args.push('--plant', of.plant);
    parts.push(runWorker(args));
  }
  const all = await Promise.all(parts);
  const [total, ...others] = all;
  if (total === undefined) throw new Error('no seeds');
  for (const other of others) {
    total.seeds += other.seeds;
    total.violations += other.violations;
    total.virtualDays += other.virtualDays;
    total.failingSeeds.push(...other.failingSeeds);
    total.charges += other.charges;
    total.sends += other.sends;
    for (const [what, times] of Object.entries(other.seen)) {
      total.seen[what] = (total.seen[what] ?? 0) + times;
    }
  }
  return total;
}

async function runWorker(args: readonly string[]): Promise<Summary> {
  const script = process.argv[1];
  if (script === undefined) throw new Error('no script');
  const child = spawn(process.execPath, [script, ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  // Lines are passed on as they come; the last one is the part's summary.
  let held = '';
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
    const text = held + chunk;
    const last = text.lastIndexOf('\n', text.length - 2) + 1;
    process.stdout.write(text.slice(0, last));
    held = text.slice(last);
  });
  await new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', resolve);
  });
  return JSON.parse(held);
}

function finish(total: Summary): void {
  const missing = neverSeen(new Map(Object.entries(total.seen)));
  const mustSee = options.seeds >= SEEDS_TO_SEE_ALL && total.violations === 0;
  const verdict =
    total.violations > 0 ? 'fail' : mustSee && missing.length > 0 ? 'unknown' : 'pass';
  const virtualDays = Math.round(total.virtualDays * 10) / 10;
  const seconds = Math.round((wallMs() - startedMs) / 1000);
  if (!options.part) {
    process.stdout.write(
      `${verdict}: ${total.seeds} seeds, ${total.violations} violations, ${virtualDays} virtual days, ` +
        `${total.sends} sends, ${total.charges} charges, ${seconds} s\n`,
    );
  }
  if (mustSee && missing.length > 0) process.stdout.write(`never seen: ${missing.join(', ')}\n`);
  if (options.json) {
    const { seeds, violations, virtualDays: _exact, ...rest } = total;
    const line = { seeds, violations, virtualDays, verdict, neverSeen: missing, ...rest };
    process.stdout.write(`${JSON.stringify(line)}\n`);
  }
  // The database would keep the process; nothing of it is needed once everything is written.
  process.stdout.write('', () => process.exit(verdict === 'pass' ? 0 : 1));
}
