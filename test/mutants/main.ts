// npm run mutants: plants known bugs one by one in a copy of the project, and requires a named test to fail.
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { Command, InvalidArgumentError } from '@commander-js/extra-typings';
import Table from 'cli-table3';
import { MUTANTS } from './catalogue/index.ts';
import { copyProject, type ProjectCopy } from './copy.ts';
import { judge, type Verdict } from './judge.ts';
import { plant, whyNotPlantable, whyNoCatcher, type Catcher, type Mutant } from './mutant.ts';
import { stopAll } from './processes.ts';
import { simulateIn } from './simulation.ts';
import { isNamedBy, runCatchers, type CatcherRun } from './run-tests-of.ts';

const PROJECT = fileURLToPath(new URL('../..', import.meta.url));
/** Each run starts servers; more than the cores would make tests time out, which proves nothing. */
const MAX_JOBS = 2;
/** Played without a bug first, so that what breaks afterwards is the bug. */
const SEEDS_WITHOUT_A_BUG = 20;

/** Bare columns: the titles are long, and the output is read in files too. */
const LOOK = {
  style: { head: [], border: [], 'padding-left': 0, 'padding-right': 2 },
  chars: Object.fromEntries(
    ['top', 'bottom', 'left', 'right', 'mid', 'middle']
      .flatMap((side) => [side, `${side}-mid`, `${side}-left`, `${side}-right`])
      .map((side) => [side, '']),
  ),
};

interface Result extends Verdict {
  readonly mutant: Mutant;
  readonly seconds: number;
}

const options = new Command('mutants')
  .description('plant known bugs one by one in a copy of the project: a named test has to fail')
  .option('--only <ids>', 'only these, separated by commas', (text) => text.split(','))
  .option('--jobs <n>', `bugs under test at once, at most ${MAX_JOBS}`, jobs, 1)
  .option('--simulate <seeds>', 'let the simulation find them instead of the tests', seeds)
  .option('--list', 'print the bugs and who catches them, and plant nothing')
  .option('--json', 'print the result as one JSON object on the last line')
  .addHelpText('after', '\nExits with 0 only when everything planted was caught.')
  .parse()
  .opts();

const copies: ProjectCopy[] = [];
const results = new Map<string, Result>();
const errors: Problem[] = [];
const startedAt = performance.now();
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => void stopAll().finally(() => leave(130)));
}
async function main(): Promise<number> {
  const { simulate } = options;
  const mutants = MUTANTS.filter(
    ({ id, simulated }) => options.only?.includes(id) ?? (simulate === undefined || simulated),
  );
  const unknown = (options.only ?? []).filter((id) => !MUTANTS.some((one) => one.id === id));
  if (unknown.length > 0) return fail(unknown.map((id) => ({ id, why: 'there is no such bug' })));
  if (options.list === true) return list(mutants);
  const unusable = mutants.flatMap((mutant) => {
    const why = whyNotPlantable(PROJECT, mutant) ?? whyNoCatcher(PROJECT, mutant.catcher);
    return why === null ? [] : [{ id: mutant.id, why }];
  });
  if (unusable.length > 0) return fail(unusable);
  try {
    for (let lane = 0; lane < options.jobs; lane += 1) copies.push(copyProject(PROJECT));
    if (simulate !== undefined) {
      const plain = await simulateIn(needCopy(), SEEDS_WITHOUT_A_BUG);
      if (plain.caught) return fail([{ id: 'simulation', why: `without a bug: ${plain.why}` }]);
      await inLanes(mutants, (mutant, copy) =>
        tryOne(mutant, copy, () => simulateIn(copy, simulate)),
      );
      return report(mutants);
    }
    await inLanes(byFile(mutants), tryFile);
    return report(mutants);
  } finally {
    removeCopies();
  }
}

/** The mutants of each test file together, most of them first. */
function byFile(mutants: readonly Mutant[]): readonly (readonly Mutant[])[] {
  const files = Map.groupBy(mutants, ({ catcher }) => catcher.file);
  return [...files.values()].sort((one, other) => other.length - one.length);
}

/** Runs a file's catchers without a bug, then each with its own. One that fails without is no judge. */
async function tryFile(mutants: readonly Mutant[], copy: ProjectCopy): Promise<void> {
  // Once more: on a busy machine a test can be late.
  let unfit = await findUnfit(mutants, copy);
  if (unfit.size > 0) unfit = await findUnfit([...unfit.keys()], copy);
  for (const mutant of mutants) {
    const why = unfit.get(mutant);
    if (why !== undefined) {
      errors.push({ id: mutant.id, why });
      continue;
    }
    await tryOne(mutant, copy, async () => {
      const run = await runCatchers(copy, [mutant.catcher]);
      return { ...judge(mutant, run), seconds: run.seconds };
    });
  }
}

async function findUnfit(
  mutants: readonly Mutant[],
  copy: ProjectCopy,
): Promise<ReadonlyMap<Mutant, string>> {
  const unfit = new Map<Mutant, string>();
  const [first, ...others] = mutants.map(({ catcher }) => catcher);
  if (first === undefined) return unfit;
  const run = await runCatchers(copy, [first, ...others]);
  for (const mutant of mutants) {
    const why = whyUnfit(mutant.catcher, run);
    if (why !== null) unfit.set(mutant, why);
  }
  for (const why of unfit.values()) note(why);
  const passed = mutants.length - unfit.size;
  note(
    `${first.file}: ${passed} of ${mutants.length} pass without a bug (${run.seconds.toFixed(1)} s)`,
  );
  return unfit;
}

function whyUnfit(catcher: Catcher, run: CatcherRun): string | null {
  const named = run.tests.filter(({ title }) => isNamedBy(title, catcher));
  const title = `"${catcher.title}" of ${catcher.file}`;
  if (named.length === 0) return `${title} did not run: ${run.broken ?? 'no test of that name'}`;
  const bad = named.find(({ status }) => status !== 'passed');
  return bad === undefined ? null : `${title} does not pass without a bug: ${bad.failure}`;
}

/** Plants one bug in a copy while something looks for it. */
async function tryOne(
  mutant: Mutant,
  copy: ProjectCopy,
  look: () => Promise<Verdict & { readonly seconds: number }>,
): Promise<void> {
  const restore = plant(copy.root, mutant);
  try {
    const result: Result = { mutant, ...(await look()) };
    results.set(mutant.id, result);
    const said = result.caught ? 'caught' : 'SURVIVED';
    note(`${mutant.id}: ${said} (${result.seconds.toFixed(1)} s) ${result.why}`);
  } finally {
    restore();
  }
}

/** Goes through the items, one at a time in each copy. */
async function inLanes<T>(
  items: readonly T[],
  work: (item: T, copy: ProjectCopy) => Promise<void>,
): Promise<void> {
  const waiting = [...items];
  const lane = async (copy: ProjectCopy): Promise<void> => {
    for (let item = waiting.shift(); item !== undefined; item = waiting.shift()) {
      await work(item, copy);
    }
  };
  await Promise.all(copies.map(lane));
}

function list(mutants: readonly Mutant[]): number {
  const table = new Table({ head: ['id', 'bug', 'caught by'], ...LOOK });
  for (const { id, bug, catcher } of mutants) table.push([id, bug, by(catcher)]);
  process.stdout.write(`${table.toString().replaceAll(/ +$/gm, '')}\n`);
  return 0;
}

function report(mutants: readonly Mutant[]): number {
  const planted = mutants.flatMap(({ id }) => results.get(id) ?? []);
  const table = new Table({ head: ['id', 'bug', 'caught by', 's'], ...LOOK });
  for (const { mutant, caught, why, seconds } of planted) {
    const named = options.simulate === undefined ? by(mutant.catcher) : why;
    const who = caught ? named : `SURVIVED: ${why}`;
    table.push([mutant.id, mutant.bug, who, seconds.toFixed(1)]);
  }
  const survivors = planted.filter(({ caught }) => !caught).map(({ mutant }) => mutant.id);
  const caught = planted.length - survivors.length;
  const seconds = Math.round((performance.now() - startedAt) / 1000);
  process.stdout.write(`${table.toString().replaceAll(/ +$/gm, '')}\n`);
  process.stdout.write(`${planted.length} planted, ${caught} caught in ${seconds} s\n`);
  if (errors.length > 0) return fail(errors, { planted: planted.length, caught, survivors });
  print({ planted: planted.length, caught, survivors, seconds, errors });
  return survivors.length === 0 && caught > 0 ? 0 : 1;
}

interface Problem {
  readonly id: string;
  readonly why: string;
}

const NOTHING = { planted: 0, caught: 0, survivors: [] };

/** A bug that could not be planted, or a test that is no judge: neither caught nor survived. */
function fail(
  problems: readonly Problem[],
  counts: { planted: number; caught: number; survivors: readonly string[] } = NOTHING,
): number {
  for (const { id, why } of problems) process.stderr.write(`${id}: ${why}\n`);
  print({ ...counts, errors: problems });
  return 2;
}

function print(result: object): void {
  if (options.json === true) process.stdout.write(`${JSON.stringify(result)}\n`);
}

function by({ file, title }: Catcher): string {
  return `${path.basename(file, '.test.ts')}: ${title}`;
}

function note(message: string): void {
  process.stderr.write(`· ${message}\n`);
}

function removeCopies(): void {
  for (const copy of copies.splice(0)) copy.remove();
}

function leave(code: number): never {
  removeCopies();
  process.exit(code);
}

function needCopy(): ProjectCopy {
  const [copy] = copies;
  if (copy === undefined) throw new Error('no copy was made');
  return copy;
}

function seeds(text: string): number {
  const wanted = Number(text);
  if (Number.isSafeInteger(wanted) && wanted >= 1) return wanted;
  throw new InvalidArgumentError('a whole number from 1 on');
}

function jobs(text: string): number {
  const wanted = Number(text);
  if (Number.isInteger(wanted) && wanted >= 1 && wanted <= MAX_JOBS) return wanted;
  throw new InvalidArgumentError(`1 to ${MAX_JOBS}`);
}

process.exitCode = await main();
