import { existsSync, globSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { EXIT } from '../../src/cli/exit-codes.ts';
import { configSchema } from '../../src/config.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const DOCUMENTS = ['*.md', 'docs/**/*.md', 'examples/*.md'].flatMap((pattern) =>
  globSync(pattern, { cwd: ROOT }),
);

const read = (file: string): string => readFileSync(path.join(ROOT, file), 'utf8');
const readAll = (pattern: string): string =>
  globSync(pattern, { cwd: ROOT })
    .map((file) => read(file))
    .join('\n');
const withoutCode = (text: string): string => text.replaceAll(/```[\s\S]*?```/g, '');
const unique = (words: Iterable<string>): string[] => [...new Set(words)].sort();
const firstsOf = (text: string, pattern: RegExp): string[] =>
  unique([...text.matchAll(pattern)].map((match) => match[1] ?? ''));

/** The anchor that a heading gets on the page. */
function anchorOf(heading: string): string {
  return heading
    .trim()
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\-_ ]/gu, '')
    .replaceAll(' ', '-');
}

function brokenLinks(document: string): string[] {
  return firstsOf(withoutCode(read(document)), /\]\(([^)\s]+)\)/g).filter((link) => {
    if (/^https?:/.test(link)) return false;
    const [file = '', anchor = ''] = link.split('#');
    const target = file === '' ? document : path.join(path.dirname(document), file);
    if (!existsSync(path.join(ROOT, target))) return true;
    if (anchor === '') return false;
    const headings = [...withoutCode(read(target)).matchAll(/^#+ (.*)$/gm)];
    return !headings.some((match) => anchorOf(match[1] ?? '') === anchor);
  });
}

describe.each(DOCUMENTS)('%s', (document) => {
  it('links to files and headings that are there', () => {
    expect(brokenLinks(document)).toEqual([]);
  });

  it('names only files of the repository that are there', () => {
    const files = firstsOf(
      withoutCode(read(document)),
      /`((?:src|test|bench|migrations|deploy|docs|examples)\/[\w./-]+)`/g,
    );
    expect(files.filter((file) => !existsSync(path.join(ROOT, file)))).toEqual([]);
  });

  it('shows only commands that chargeonce has', () => {
    const known = firstsOf(readAll('src/cli/commands/*.ts'), /\.command\('(\w+)'\)/g);
    const control = ['pause', 'resume', 'stop', 'pause|resume|stop'];
    const blocks = [...read(document).matchAll(/```[^`]*```/g)].map(([block]) => block).join('\n');
    const shown = unique([
      ...firstsOf(read(document), /`chargeonce ([a-z][a-z|]*)/g),
      ...firstsOf(blocks, /^(?:\.\/bin\/)?chargeonce ([a-z]+)/gm),
    ]);
    expect(shown.filter((command) => ![...known, ...control].includes(command))).toEqual([]);
  });
});

describe('the documents as a set', () => {
  it('are found, the README among them', () => {
    expect(DOCUMENTS).toContain('README.md');
    expect(DOCUMENTS).toContain(path.join('docs', 'operations.md'));
  });
});

describe('README.md', () => {
  it('is read in one sitting: at most 150 lines', () => {
    expect(read('README.md').split('\n').length).toBeLessThanOrEqual(150);
  });
});

describe('docs/operations.md', () => {
  it('has every variable of the configuration in its table', () => {
    const section = /## Configuration\n([\s\S]*?)\n## /.exec(read('docs/operations.md'))?.[1] ?? '';
    const rows = section.split('\n').filter((line) => line.startsWith('| `'));
    const named = firstsOf(rows.map((row) => row.split('|')[1]).join(' '), /`([A-Z_]+)`/g);
    expect(named).toEqual(Object.keys(configSchema.shape).sort());
  });
});

describe('docs/errors.md', () => {
  it('has every exit code in its table', () => {
    const section = /## Exit codes\n([\s\S]*)/.exec(read('docs/errors.md'))?.[1] ?? '';
    const codes = [...section.matchAll(/^\| (\d+) \|/gm)].map((match) => Number(match[1]));
    expect(codes).toEqual(Object.values(EXIT));
  });
});

describe('docs/guarantees.md', () => {
  const text = read('docs/guarantees.md');
  const migrations = readAll('migrations/*.sql');

  it('names only constraints and triggers that the migrations make', () => {
    const section = /## Which constraint would stop the bug\n([\s\S]*?)\n## /.exec(text)?.[1] ?? '';
    const named = firstsOf(section, /`([a-z]+(?:_[a-z]+)+)`/g);
    // A primary key without a name of its own gets its table's.
    const made = (name: string) =>
      migrations.includes(name) ||
      migrations.includes(`CREATE TABLE ${name.replace(/_pkey$/, '')} `);
    expect(named.filter((name) => !made(name))).toEqual([]);
    expect(named.length).toBeGreaterThan(15);
  });

  it('has every constraint that a trigger raises', () => {
    const raised = firstsOf(migrations, /CONSTRAINT = '(\w+)'/g);
    expect(raised.filter((name) => !text.includes(name))).toEqual([]);
  });

  it('says of every crash point what happens next', () => {
    const points = firstsOf(read('src/activities/crash-points.ts'), /^ {2}\| '(\w+)'/gm);
    expect(points.length).toBeGreaterThan(5);
    expect(points.filter((point) => !text.includes(`\`${point}\``))).toEqual([]);
  });
});
