import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  jsonReport,
  lintFiles,
  sarifReport,
  sourceFilesAt,
  textReport,
} from '../../src/lint/index.ts';
import { findingsOf } from '../support/lint.ts';

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'lint-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function write(files: Readonly<Record<string, string>>): void {
  for (const [name, text] of Object.entries(files)) {
    const file = path.join(folder, name);
    mkdirSync(path.dirname(file), { recursive: true });
    writeFileSync(file, text);
  }
}

async function lint() {
  return lintFiles(await sourceFilesAt(folder));
}

const KEYED = `await pRetry(() => stripe.charges.create({}, { idempotencyKey: randomUUID() }));\n`;

describe('chargeonce lint reads', () => {
  it('all kinds of sources in a folder, and neither declarations nor the code of others', async () => {
    const read = [
      'a.ts',
      'b.tsx',
      'c.js',
      'd.jsx',
      'e.mjs',
      'f.cjs',
      'g.mts',
      'h.cts',
      'deep/er/i.ts',
    ];
    const left = ['a.d.ts', 'b.d.mts', 'c.json', 'node_modules/x/a.js', 'dist/a.js', '.git/a.js'];
    write(Object.fromEntries([...read, ...left].map((name) => [name, KEYED])));
    const { findings, files } = await lint();
    expect(files).toBe(read.length);
    expect(findings.map(({ file }) => path.relative(folder, file))).toEqual(read.sort());
  });

  it('a folder of the code of others when it is named', async () => {
    write({ 'node_modules/x/a.js': KEYED });
    expect(await sourceFilesAt(path.join(folder, 'node_modules'))).toHaveLength(1);
  });

  it('JavaScript with JSX or types, CommonJS, and files that begin with a mark or a hashbang', async () => {
    write({
      'jsx.js': `const a = <b>{1}</b>;\n${KEYED}`,
      'types.js': `const a: string = '';\n${KEYED}`,
      'common.cjs': `const Stripe = require('stripe');\nreturn new Stripe().charges.create({});`,
      'mark.ts': `\uFEFF${KEYED}`,
      'hashbang.mjs': `#!/usr/bin/env node\n${KEYED}`,
    });
    const { findings, problems } = await lint();
    expect(problems).toEqual([]);
    expect(findings).toHaveLength(5);
  });

  it('a nesting deeper than a stack', async () => {
    write({ 'deep.js': `const idempotencyKey = ${'1 + '.repeat(20_000)}1;\n${KEYED}` });
    const { findings, problems } = await lint();
    expect(findings.length + problems.length).toBe(1);
  });
});

describe('chargeonce lint tells of', () => {
  it('a file that does not parse, and goes on', async () => {
    write({ 'broken.ts': `const idempotencyKey = ;`, 'whole.ts': KEYED });
    const { findings, problems } = await lint();
    expect(findings).toHaveLength(1);
    expect(problems).toEqual([
      { file: path.join(folder, 'broken.ts'), line: 1, column: 24, message: 'Unexpected token' },
    ]);
  });

  it('a key that another file hands to a parameter of that name', async () => {
    write({
      'pay.ts': `export async function pay(order: Order, idempotencyKey: string) {}`,
      'client.ts': `export class Client { charge({ idempotencyKey }: { idempotencyKey: string }) {} }`,
      'run.ts': `import { pay as send } from './pay.js';
        import { Client } from './client';
        export const run = (order: Order) => pRetry(() => send(order, randomUUID()));
        export async function twice(order: Order) {
          const client = new Client();
          await retry(() => client.charge({ idempotencyKey: \`\${order.id}-\${Date.now()}\` }));
          await pay(order, order.key);
        }`,
    });
    const { findings } = await lint();
    expect(findings.map(({ rule, start }) => [rule, start.line])).toEqual([
      ['key-in-retry', 3],
      ['key-from-clock', 6],
    ]);
  });

  it('nothing when it is interrupted before it begins', async () => {
    write({ 'a.ts': KEYED });
    const report = await lintFiles(await sourceFilesAt(folder), { signal: AbortSignal.abort() });
    expect(report).toMatchObject({ files: 0, findings: [], interrupted: true });
  });
});

describe('a comment switches a finding off', () => {
  const before = (comment: string): string[] =>
    findingsOf(`${comment}\n${KEYED}`).map((one) => one.split(':')[0] ?? '');

  it('when it names the rule and a reason', async () => {
    write({ 'a.ts': `// chargeonce-lint-disable-next-line key-in-retry -- a sandbox\n${KEYED}` });
    expect(await lint()).toMatchObject({ findings: [], suppressed: 1 });
    expect(before('/* chargeonce-lint-disable-next-line key-in-retry -- a sandbox */')).toEqual([]);
  });

  it('not without a reason, not for another rule, not for a rule that does not exist', () => {
    const faulty = 'error suppression-without-reason';
    expect(before('// chargeonce-lint-disable-next-line key-in-retry')).toEqual([
      faulty,
      'error key-in-retry',
    ]);
    expect(before('// chargeonce-lint-disable-next-line key-in-retry --  ')).toEqual([
      faulty,
      'error key-in-retry',
    ]);
    expect(before('// chargeonce-lint-disable-next-line -- a sandbox')).toEqual([
      faulty,
      'error key-in-retry',
    ]);
    expect(before('// chargeonce-lint-disable-next-line all -- a sandbox')).toEqual([
      faulty,
      'error key-in-retry',
    ]);
    expect(before('// chargeonce-lint-disable-next-line key-from-clock -- a sandbox')).toEqual([
      'error key-in-retry',
    ]);
  });

  it('only on the line that follows', () => {
    expect(before('// chargeonce-lint-disable-next-line key-in-retry -- a sandbox\n')).toEqual([
      'error key-in-retry',
    ]);
  });
});

describe('a report of chargeonce lint', () => {
  beforeEach(() => write({ 'a b.ts': KEYED, 'broken.ts': 'const stripe = ;' }));

  it('names for people the place, the harm, what to do instead and where to see it', async () => {
    const text = textReport(await lint()).join('\n');
    expect(text).toContain(
      `${path.join(folder, 'a b.ts')}\n  1:48    error    key-in-retry: the key is made of randomUUID(), in pRetry(…)`,
    );
    expect(text).toContain('Instead: Make the key outside of what is retried');
    expect(text).toContain('See it happen: docs/failures/07-key-at-the-call-site.md');
    expect(text).toContain('broken.ts:1:16 Unexpected token');
    expect(text).toContain('1 error and 0 warnings in 1 of 2 files, 1 file not looked at');
  });

  it('has in JSON each finding with its place and remedy', async () => {
    expect(jsonReport(await lint())).toMatchObject({
      files: 2,
      errors: 1,
      warnings: 0,
      findings: [
        { rule: 'key-in-retry', severity: 'error', line: 1, column: 48, endLine: 1, endColumn: 76 },
      ],
      problems: [{ line: 1, column: 16 }],
    });
  });

  it('is a SARIF log of version 2.1.0 with rules, places below a root, and what could not be read', async () => {
    const log = sarifReport(await lint(), { version: '1.2.3', folder });
    expect(log).toMatchObject({
      version: '2.1.0',
      runs: [
        {
          tool: { driver: { name: 'chargeonce lint', semanticVersion: '1.2.3' } },
          originalUriBaseIds: { SRCROOT: { uri: expect.stringMatching(/^file:\/\/\/.+\/$/) } },
          invocations: [
            {
              executionSuccessful: true,
              toolExecutionNotifications: [
                { level: 'error', message: { text: 'Unexpected token' } },
              ],
            },
          ],
          results: [
            {
              ruleId: 'key-in-retry',
              level: 'error',
              locations: [
                {
                  physicalLocation: {
                    artifactLocation: { uri: 'a%20b.ts', uriBaseId: 'SRCROOT' },
                    region: { startLine: 1, startColumn: 48, endLine: 1, endColumn: 76 },
                  },
                },
              ],
            },
          ],
        },
      ],
    });
  });
});
