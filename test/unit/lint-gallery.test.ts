import { existsSync, globSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { beforeAll, describe, expect, it } from 'vitest';
import { EXHIBITS } from '../../failures/exhibits.ts';
import { lintFiles, RULES, sourceFilesAt, type LintReport } from '../../src/lint/index.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** What is found in each tempting file of the rooms A and B; docs/lint.md has the same table. */
const FOUND: Readonly<Record<string, string>> = {
  '01-interceptor-key-resend': 'key-in-interceptor',
  '02-key-per-redirect': 'key-in-interceptor',
  '03-retry-hook-new-key': 'key-in-retry-hook',
  '04-key-if-absent-per-send': 'key-if-absent',
  '05-retry-counter-key': 'key-from-tracing',
  '06-sdk-automatic-key': 'stripe-post-without-key',
  '07-key-at-the-call-site': 'key-in-retry',
  '08-callback-calls-again': 'key-in-retry',
  '09-caller-time-out': 'key-in-retry',
  '10-lazy-key': 'key-from-randomness',
  '11-key-from-what-is-at-hand': 'key-from-connection',
  '12-message-fired-again': 'key-from-message',
  '13-shared-handler-state': 'key-in-shared-state',
  '36-key-per-reauthentication': 'key-in-interceptor',
  '37-axios-retry-interceptor': 'key-in-interceptor',
  '38-tracing-id-key': 'key-from-tracing',
};

let gallery: LintReport;

beforeAll(async () => {
  gallery = await lintFiles(await sourceFilesAt(path.join(ROOT, 'failures')));
});

const temptingOf = (rooms: string): string[] =>
  globSync(`failures/${rooms}/*/tempting*.ts`, { cwd: ROOT }).sort();
const exhibitOf = (file: string): string => path.basename(path.dirname(file));

describe('chargeonce lint, run on the gallery', () => {
  it('finds every tempting way of rooms A and B, by its rule', () => {
    const found = temptingOf('{a,b}-*').map((file) => [
      exhibitOf(file),
      gallery.findings.find((one) => path.relative(ROOT, one.file) === file)?.rule,
    ]);
    expect(Object.fromEntries(found)).toEqual(FOUND);
  });

  it('finds nothing in a fixed way, in an exhibit or in what they share', () => {
    const elsewhere = gallery.findings.filter(
      ({ file }) => !path.basename(file).startsWith('tempting'),
    );
    expect(elsewhere).toEqual([]);
    expect(gallery.problems).toEqual([]);
  });

  it('knows every exhibit of rooms A and B', () => {
    const numbers = EXHIBITS.filter(({ room }) => room === 'A' || room === 'B').map(
      ({ number }) => number,
    );
    expect(Object.keys(FOUND).map((name) => Number(name.slice(0, 2)))).toEqual(numbers);
  });
});

describe('chargeonce lint, run on chargeonce', () => {
  it('finds nothing in src', async () => {
    const own = await lintFiles(await sourceFilesAt(path.join(ROOT, 'src')));
    expect(own.findings).toEqual([]);
    expect(own.problems).toEqual([]);
    expect(own.suppressed).toBe(0);
    expect(own.files).toBeGreaterThan(300);
  });
});

describe('the rules of chargeonce lint', () => {
  it.each(Object.values(RULES))('$id sends its reader to a page that is there', ({ page }) => {
    expect(existsSync(path.join(ROOT, page))).toBe(true);
  });
});
