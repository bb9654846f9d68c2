import Table from 'cli-table3';
import { inWords, sumInWords, type Outcome } from './judge.ts';
import type { Shown } from './runner.ts';

/** The closing line of `--json`. */
export interface Summary {
  readonly exhibits: number;
  /** exhibits whose tempting code did its harm: all of them, or the gallery is wrong */
  readonly naiveFailures: number;
  /** exhibits in which ours, or the fix, did harm: none, or we are */
  readonly oursFailures: number;
}

export function summaryOf(all: readonly Shown[]): Summary {
  return {
    exhibits: all.length,
    naiveFailures: all.filter(({ tempting }) => tempting.problem === null).length,
    oursFailures: all.filter((shown) => (shown.fixed?.problem ?? shown.ours.problem) !== null)
      .length,
  };
}

/** An exhibit that stopped failing is dead, and one in which ours fails is worse. */
export function allHeld(summary: Summary): boolean {
  return summary.naiveFailures === summary.exhibits && summary.oursFailures === 0;
}

/** What is wrong with an exhibit, a line each. */
export function problemsOf({ exhibit, tempting, fixed, ours }: Shown): string[] {
  return [
    ['the tempting code', tempting.problem],
    ['the fix', fixed?.problem ?? null],
    ['ours', ours.problem],
  ].flatMap(([who, problem]) =>
    problem === null ? [] : [`${exhibit.number} ${exhibit.name}: ${who} ${problem}`],
  );
}

/** Where an exhibit's page is. */
export function pageOf({ exhibit }: Pick<Shown, 'exhibit'>): string {
  return `docs/failures/${String(exhibit.number).padStart(2, '0')}-${exhibit.name}.md`;
}

const HEAD = ['', 'exhibit', 'the tempting code', 'ours', 'read on'];
/** In characters, without the lines between them. */
const WIDE = [4, 40, 34, 26, 52];
/** Without the page: its number says which one it is. */
const NARROW = [4, 32, 21, 18];
const widthOf = (columns: readonly number[]): number =>
  columns.reduce((sum, width) => sum + width + 1, 1);

/** The exhibits as a table for people; `columns` is the terminal's width, and there is no limit without one. */
export function tableOf(all: readonly Shown[], columns = Infinity): string {
  const isWide = columns >= widthOf(WIDE);
  const widths = isWide ? WIDE : NARROW;
  const table = new Table({
    head: HEAD.slice(0, widths.length),
    style: { head: [], border: [] },
    wordWrap: true,
    colWidths: [...widths],
  });
  for (const shown of all) {
    const { exhibit, tempting, ours } = shown;
    // The backstop is about money, all other rooms about customers.
    const words = (outcome: Outcome): string =>
      exhibit.room === 'F' ? `${inWords(outcome)}: ${sumInWords(outcome)}` : inWords(outcome);
    const row = [
      exhibit.number,
      exhibit.title,
      words(tempting.outcome),
      ours.problem === null ? words(ours.outcome) : `FAILED: ${ours.problem}`,
      pageOf(shown),
    ];
    table.push(row.slice(0, widths.length));
  }
  return isWide
    ? table.toString()
    : `${table.toString()}\nEach has a page: docs/failures/<number>-….md`;
}

/** One exhibit as a JSON object. */
export function jsonOf(shown: Shown) {
  const { exhibit, tempting, fixed, ours } = shown;
  return {
    number: exhibit.number,
    name: exhibit.name,
    room: exhibit.room,
    title: exhibit.title,
    harm: exhibit.harm,
    tempting,
    fixed,
    ours,
    page: pageOf(shown),
  };
}
