import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const read = (file: string): string => readFileSync(path.join(ROOT, file), 'utf8');

interface Row {
  readonly id: string;
  readonly text: string;
  /** null: there is no test yet, and `text` says why */
  readonly test: { readonly file: string; readonly title: string } | null;
}

const ROWS: readonly Row[] = [
  ...read('docs/cases.md').matchAll(/^\| ([A-Z]\d+[a-h]?) \| [^|]* \| (.*) \|$/gm),
].map(([, id = '', text = '']) => {
  const test = /^`(test\/[\w./-]+\.test\.ts)` › (.+)$/.exec(text);
  return { id, text, test: test === null ? null : { file: test[1] ?? '', title: test[2] ?? '' } };
});

/** The ids in front of a title: "A1, A4: is indeterminate …". */
function idsOf(title: string): readonly string[] {
  return /^((?:[A-Z]\d+[a-h]?(?:, )?)+): /.exec(title)?.[1]?.split(', ') ?? [];
}

/** Whether the file has the title as a string of its own, in whichever quotes. */
function hasTitle(file: string, title: string): boolean {
  if (!existsSync(path.join(ROOT, file))) return false;
  const source = read(file).replaceAll(String.raw`\'`, "'");
  return ["'", '"', '`'].some((quote) => source.includes(`${quote}${title}${quote}`));
}

describe('the list of failures that others had', () => {
  it('is read whole: every row is a test, or says what it waits for', () => {
    const lines = read('docs/cases.md')
      .split('\n')
      .filter((line) => /^\| [A-Z]\d/.test(line));
    expect(lines.length).toBeGreaterThan(150);
    expect(ROWS).toHaveLength(lines.length);
    const neither = ROWS.filter((row) => row.test === null && !row.text.startsWith('not yet: '));
    expect(neither.map((row) => `${row.id} ${row.text}`)).toEqual([]);
  });

  it('names tests by the titles they have', () => {
    const gone = ROWS.filter(
      (row) => row.test !== null && !hasTitle(row.test.file, row.test.title),
    );
    expect(gone.map((row) => `${row.id} ${row.text}`)).toEqual([]);
  });

  it('names tests that carry the id in front of their title', () => {
    const silent = ROWS.filter(
      (row) => row.test !== null && !idsOf(row.test.title).includes(row.id),
    );
    expect(silent.map((row) => `${row.id} ${row.text}`)).toEqual([]);
  });

  it('leaves only the HTTP layer and the vault for later', () => {
    const open = ROWS.filter((row) => row.test === null).map((row) => row.id);
    expect(open.filter((id) => !/^(?:[MPV]\d+[a-h]?|F4|O3)$/.test(id))).toEqual([]);
    const tested = new Set(ROWS.filter((row) => row.test !== null).map((row) => row.id));
    expect(open.filter((id) => tested.has(id))).toEqual([]);
  });
});
