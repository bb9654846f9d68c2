import { styleText } from 'node:util';
import Table from 'cli-table3';

/** Where a command writes: results to stdout, everything said on the way to stderr. */
export interface Output {
  readonly json: boolean;
  /** a person is looking at stderr */
  readonly interactive: boolean;
  /** a line of the result */
  line(text: string): void;
  /** something said on the way */
  note(text: string): void;
  /** the result as one JSON object on the last line, with --json only */
  result(value: object): void;
  /** redraws the line at the cursor; '' clears it. Interactive only. */
  redraw(text: string): void;
}

/** Writes to the process's streams. With --json stdout holds nothing but the last line. */
export function processOutput(json: boolean): Output {
  const interactive = process.stderr.isTTY;
  let drawn = false;
  const clear = (): void => {
    if (drawn) process.stderr.write('\r\u001B[2K');
    drawn = false;
  };
  return {
    json,
    interactive,
    line(text) {
      clear();
      if (!json) process.stdout.write(`${text}\n`);
    },
    note(text) {
      clear();
      process.stderr.write(`${text}\n`);
    },
    result(value) {
      clear();
      if (json) process.stdout.write(`${JSON.stringify(value)}\n`);
    },
    redraw(text) {
      if (!interactive) return;
      if (text === '') {
        clear();
        return;
      }
      const width = process.stderr.columns || 80;
      // Cleared and drawn in one write: between two the line would flicker.
      process.stderr.write(`\r\u001B[2K${text.slice(0, width - 1)}`);
      drawn = true;
    },
  };
}

/** Two or more columns under a head; numbers to the right. */
export function table(
  head: readonly string[],
  rows: readonly (readonly (string | number)[])[],
): string {
  const grid = new Table({
    head: [...head],
    style: { head: [], border: [], compact: true },
    colAligns: head.map((_, column) => (typeof rows[0]?.[column] === 'number' ? 'right' : 'left')),
  });
  grid.push(...rows.map((row) => row.map(String)));
  return grid.toString();
}

export const bold = (text: string): string => styleText('bold', text);
export const green = (text: string): string => styleText('green', text);
export const red = (text: string): string => styleText('red', text);
export const yellow = (text: string): string => styleText('yellow', text);
