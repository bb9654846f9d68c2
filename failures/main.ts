// The gallery: every known way to charge twice, run against a simulator, beside the way that does not.
import { parseArgs } from 'node:util';
import { CommandError } from '../src/cli/exit-codes.ts';
import { EXHIBITS } from './exhibits.ts';
import type { Exhibit } from './harness/exhibit.ts';
import { openHouse, type House } from './harness/house.ts';
import { allHeld, jsonOf, problemsOf, summaryOf, tableOf } from './harness/report.ts';
import { show, type Shown } from './harness/runner.ts';
import { linesOf } from './harness/timeline.ts';

const HELP = `Usage: chargeonce failures [NAME…] [--list] [--timeline] [--json]

Runs every known way to charge twice against a Stripe simulator on this machine, and the same situation through
chargeonce. NAME is an exhibit's name, its number, or the letter of its room (A to G).

  --list       name the exhibits and run none
  --timeline   also print the requests as they reached Stripe
  --json       one JSON object for each exhibit, and a closing line {"exhibits","naiveFailures","oursFailures"}
  --help       this

Exit codes: 0 each tempting way did its harm and ours did none · 1 not so · 2 bad input ·
5 a part is not available · 130 interrupted`;

const EXIT = { ok: 0, failed: 1, usage: 2, unavailable: 5, interrupted: 130 } as const;
/** A second signal this soon after the first one is the same one: npm passes on what the group has had already. */
const SAME_PRESS_MS = 1_000;

const interrupted = new AbortController();
listenForTheEnd();
/** What failed after its exhibit was over, and so is in nobody's row. */
const strays: unknown[] = [];
for (const event of ['unhandledRejection', 'uncaughtException'] as const)
  process.on(event, (reason: unknown) => {
    // When everything is taken down beneath an exhibit, it fails, and that says nothing.
    if (interrupted.signal.aborted) return;
    strays.push(reason);
    note(`✗ something that an exhibit had left behind failed: ${inWords(reason)}`);
  });

const code = await main().catch((error: unknown) => {
  note(error instanceof CommandError ? error.message : inWords(error));
  return error instanceof CommandError ? error.exitCode : EXIT.failed;
});
// Careless code may have left timers, sockets and retries behind; the process must not wait for them.
process.stdout.write('', () => process.exit(code));

async function main(): Promise<number> {
  const options = read();
  if (typeof options === 'number') return options;
  const house = await openHouse(process.env, (message) => note(`· ${message}`));
  let all: Shown[] | null;
  try {
    all = await Promise.race([showAll(options, house), interruption()]);
  } finally {
    await house.close();
  }
  if (all === null || interrupted.signal.aborted) return EXIT.interrupted;
  const summary = summaryOf(all);
  process.stdout.write(
    options.json
      ? `${JSON.stringify(summary)}\n`
      : `${tableOf(all, process.stdout.columns)}\n${inShort(all)}\n`,
  );
  return allHeld(summary) && strays.length === 0 ? EXIT.ok : EXIT.failed;
}

async function showAll({ chosen, json, timeline }: Options, house: House): Promise<Shown[]> {
  const all: Shown[] = [];
  for (const exhibit of chosen) {
    const began = performance.now();
    const shown = await show(exhibit, house);
    if (interrupted.signal.aborted) break;
    all.push(shown);
    const seconds = ((performance.now() - began) / 1000).toFixed(1);
    note(`· ${all.length}/${chosen.length} ${exhibit.number} ${exhibit.name} (${seconds} s)`);
    for (const problem of problemsOf(shown)) note(`✗ ${problem}`);
    if (json) process.stdout.write(`${JSON.stringify(jsonOf(shown))}\n`);
    else if (timeline) process.stdout.write(`${timelineOf(shown)}\n`);
  }
  return all;
}

/** Ends with null as soon as somebody wants the end: the exhibit that runs is not waited for. */
async function interruption(): Promise<null> {
  const { signal } = interrupted;
  if (!signal.aborted) await new Promise((resolve) => signal.addEventListener('abort', resolve));
  return null;
}

/** Signals, the end of the command that has started this process, and the end of whoever reads what it prints. */
function listenForTheEnd(): void {
  let askedAt = 0;
  const end = (): void => {
    if (interrupted.signal.aborted) return;
    askedAt = performance.now();
    interrupted.abort();
  };
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
    process.on(signal, () => {
      if (!interrupted.signal.aborted) {
        end();
        note('· interrupted: taking everything down');
      } else if (performance.now() - askedAt > SAME_PRESS_MS) {
        // The embedded parts end with this process's connection to them; their folder stays.
        process.exit(EXIT.interrupted);
      }
    });
  process.on('disconnect', end);
  for (const stream of [process.stdout, process.stderr]) stream.on('error', end);
}

function note(message: string): void {
  process.stderr.write(`${message}\n`);
}

function inWords(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}

interface Options {
  readonly chosen: readonly Exhibit[];
  readonly json: boolean;
  readonly timeline: boolean;
}

function read(): Options | number {
  const { values, positionals } = parse();
  if (values === null) return EXIT.usage;
  if (values.help === true) {
    process.stdout.write(`${HELP}\n`);
    return EXIT.ok;
  }
  const chosen = positionals.length === 0 ? EXHIBITS : positionals.flatMap(named);
  const unknown = positionals.filter((name) => named(name).length === 0);
  if (unknown.length > 0) {
    process.stderr.write(
      `no exhibit is called ${unknown.join(', ')}; see: chargeonce failures --list\n`,
    );
    return EXIT.usage;
  }
  if (values.list === true) {
    for (const { number, name, room, title } of chosen)
      process.stdout.write(`${room} ${String(number).padStart(2)} ${name}: ${title}\n`);
    return EXIT.ok;
  }
  return {
    chosen: [...new Set(chosen)],
    json: values.json === true,
    timeline: values.timeline === true,
  };
}

function parse() {
  try {
    return parseArgs({
      allowPositionals: true,
      options: {
        json: { type: 'boolean' },
        list: { type: 'boolean' },
        timeline: { type: 'boolean' },
        help: { type: 'boolean', short: 'h' },
      },
    });
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n${HELP}\n`);
    return { values: null, positionals: [] };
  }
}

function named(name: string): Exhibit[] {
  return EXHIBITS.filter(
    (exhibit) =>
      exhibit.name === name ||
      String(exhibit.number) === name ||
      exhibit.room === name.toUpperCase(),
  );
}

function timelineOf({ exhibit, tempting, ours }: Shown): string {
  return [
    `${exhibit.number} ${exhibit.title}`,
    '  tempting:',
    ...linesOf(tempting.outcome.requests).map((line) => `    ${line}`),
    '  ours:',
    ...linesOf(ours.outcome.requests).map((line) => `    ${line}`),
  ].join('\n');
}

function inShort(all: readonly Shown[]): string {
  const { exhibits, naiveFailures, oursFailures } = summaryOf(all);
  return `${exhibits} exhibits: the tempting code did its harm in ${naiveFailures}, ours in ${oursFailures}`;
}
