import { existsSync, globSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { EXHIBITS } from '../../failures/exhibits.ts';
import { indexOf } from '../../failures/harness/index-page.ts';
import { pageOf } from '../../failures/harness/report.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const SECTIONS = [
  'The tempting code',
  'What reached Stripe',
  'Why review misses it',
  'The rule',
  'The fix',
  'How chargeonce does it',
];

const numberOf = (number: number): string => String(number).padStart(2, '0');

/** The exhibit's folder, and all that stands in its files. */
function codeOf(room: string, number: number): string {
  const rooms = readdirSync(path.join(ROOT, 'failures'));
  const folder = rooms.find((name) => name.startsWith(`${room.toLowerCase()}-`)) ?? '';
  const exhibits = readdirSync(path.join(ROOT, 'failures', folder));
  const own = exhibits.filter((name) => name.startsWith(`${numberOf(number)}-`));
  return own
    .flatMap((name) => {
      const files = path.join(ROOT, 'failures', folder, name);
      return readdirSync(files).map((file) => readFileSync(path.join(files, file), 'utf8'));
    })
    .join('\n');
}

describe('the failure gallery', () => {
  it('has each number and each name once', () => {
    expect(new Set(EXHIBITS.map(({ number }) => number)).size).toBe(EXHIBITS.length);
    expect(new Set(EXHIBITS.map(({ name }) => name)).size).toBe(EXHIBITS.length);
  });

  it('is listed as its exhibits say, room by room', () => {
    const list = readFileSync(path.join(ROOT, 'docs/failures/README.md'), 'utf8');
    expect(list.slice(list.indexOf('## A'))).toBe(indexOf(EXHIBITS));
  });

  it('has rooms that share by the harness, and import nothing from each other', () => {
    const files = globSync('failures/*-*/**/*.ts', { cwd: ROOT });
    const strays = files.filter((file) => {
      const code = readFileSync(path.join(ROOT, file), 'utf8');
      return /from '(\.\.\/)+[a-z]-/.test(code);
    });
    expect(files.length).toBeGreaterThan(EXHIBITS.length);
    expect(strays).toEqual([]);
  });

  it('has no page without an exhibit', () => {
    const pages = readdirSync(path.join(ROOT, 'docs/failures')).filter((file) => /^\d/.test(file));
    expect(pages.sort()).toEqual(
      EXHIBITS.map((exhibit) => path.basename(pageOf({ exhibit }))).sort(),
    );
  });

  it.each(EXHIBITS.map((exhibit) => [exhibit.number, exhibit.name, exhibit] as const))(
    'shows in the page of %i %s the code that runs, and what reached Stripe',
    (_number, _name, exhibit) => {
      const file = path.join(ROOT, pageOf({ exhibit }));
      expect(existsSync(file)).toBe(true);
      const page = readFileSync(file, 'utf8');
      const headings = [...page.matchAll(/^## (.+)$/gm)].map((match) => match[1]);
      expect(headings).toEqual(SECTIONS);
      const code = codeOf(exhibit.room, exhibit.number);
      const blocks = [...page.matchAll(/^```ts\n([\s\S]*?)^```$/gm)].map((match) => match[1] ?? '');
      expect(blocks.length).toBeGreaterThan(0);
      for (const block of blocks) expect(code).toContain(block.trimEnd());
      expect(page).toMatch(/^```text\n *1 {2}\w/m);
    },
  );
});
