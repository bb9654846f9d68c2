// The gallery: every known way to charge twice, run against a simulator, beside the way that does not.
import { parseArgs } from 'node:util';
import { EXHIBITS } from './exhibits.ts';
import type { Exhibit } from './harness/exhibit.ts';
import { openHouse } from './harness/house.ts';
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

Exit codes: 0 each tempting way did its harm and ours did none · 1 not so · 2 bad input · 130 interrupted`;

const EXIT = { ok: 0, failed: 1, usage: 2, interrupted: 130 } as const;

process.exitCode = await main();

async function main(): Promise<number> {
  const options = read();
  if (typeof options === 'number') return options;
  const { chosen, json, timeline } = options;
  const interrupted = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const)
    process.once(signal, () => interrupted.abort());
  const note = (message: string): void => {
    process.stderr.write(`${message}\n`);
  };
  const house = await openHouse(process.env, (message) => note(`· ${message}`));
  const all: Shown[] = [];
  try {
    for (const exhibit of chosen) {
      if (interrupted.signal.aborted) return EXIT.interrupted;
      const began = performance.now();
      const shown = await show(exhibit, house);
      all.push(shown);
      const seconds = ((performance.now() - began) / 1000).toFixed(1);
      note(`· ${all.length}/${chosen.length} ${exhibit.number} ${exhibit.name} (${seconds} s)`);
      for (const problem of problemsOf(shown)) note(`✗ ${problem}`);
      if (json) process.stdout.write(`${JSON.stringify(jsonOf(shown))}\n`);
      else if (timeline) process.stdout.write(`${timelineOf(shown)}\n`);
    }
  } finally {
    await house.close();
  }
  const summary = summaryOf(all);
  process.stdout.write(
    json ? `${JSON.stringify(summary)}\n` : `${tableOf(all)}\n${inShort(all)}\n`,
  );
  return allHeld(summary) ? EXIT.ok : EXIT.failed;
}

function read() {
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
