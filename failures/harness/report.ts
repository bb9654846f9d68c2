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

/** The exhibits as a table for people. */
export function tableOf(all: readonly Shown[]): string {
  const table = new Table({
    head: ['', 'exhibit', 'the tempting code', 'ours', 'read on'],
    style: { head: [], border: [] },
    wordWrap: true,
    colWidths: [4, 40, 34, 26, 52],
  });
  for (const shown of all) {
    const { exhibit, tempting, ours } = shown;
    // The backstop is about money, all other rooms about customers.
    const words = (outcome: Outcome): string =>
      exhibit.room === 'F' ? `${inWords(outcome)}: ${sumInWords(outcome)}` : inWords(outcome);
    table.push([
      exhibit.number,
      exhibit.title,
      words(tempting.outcome),
      ours.problem === null ? words(ours.outcome) : `FAILED: ${ours.problem}`,
      pageOf(shown),
    ]);
  }
  return table.toString();
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
