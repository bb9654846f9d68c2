import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Command } from '@commander-js/extra-typings';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { registerLint } from '../../src/cli/commands/lint.ts';
import { EXIT } from '../../src/cli/exit-codes.ts';
import type { Shell } from '../../src/cli/shell.ts';

const FOUND = `await pRetry(() => stripe.charges.create({}, { idempotencyKey: randomUUID() }));\n`;
const WARNED = `export const charge = () => stripe.charges.create({});\n`;
const CLEAN = `await stripe.charges.create({}, { idempotencyKey: order.key });\n`;
const BROKEN = `const stripe = ;\n`;

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'lint-'));
});
afterEach(() => {
  vi.restoreAllMocks();
  rmSync(folder, { recursive: true, force: true });
});

async function lint(
  files: Readonly<Record<string, string>>,
  flags: readonly string[] = [],
  interrupted = new AbortController().signal,
) {
  for (const [name, text] of Object.entries(files)) writeFileSync(path.join(folder, name), text);
  const shell: Shell = { env: {}, interrupted, exitCode: EXIT.ok };
  const program = new Command().exitOverride();
  registerLint(program, shell);
  let stdout = '';
  vi.spyOn(process.stdout, 'write').mockImplementation((text) => {
    stdout += String(text);
    return true;
  });
  await program.parseAsync(['node', 'chargeonce', 'lint', ...flags, folder]);
  return { stdout, exitCode: shell.exitCode };
}

describe('chargeonce lint exits with', () => {
  it('0 when nothing is found', async () => {
    expect(await lint({ 'a.ts': CLEAN })).toEqual({
      exitCode: EXIT.ok,
      stdout: '0 errors and 0 warnings in 0 of 1 file\n',
    });
  });

  it('1 for an error or a warning, also beside a file that does not parse', async () => {
    expect(await lint({ 'a.ts': WARNED })).toMatchObject({ exitCode: EXIT.failed });
    expect(await lint({ 'a.ts': FOUND, 'b.ts': BROKEN })).toMatchObject({ exitCode: EXIT.failed });
  });

  it('2 when nothing is found and a file does not parse', async () => {
    expect(await lint({ 'a.ts': CLEAN, 'b.ts': BROKEN })).toMatchObject({ exitCode: EXIT.usage });
  });

  it('2 where there is nothing to read', async () => {
    await expect(lint({ 'a.txt': FOUND })).rejects.toMatchObject({ exitCode: EXIT.usage });
    rmSync(folder, { recursive: true });
    await expect(lint({})).rejects.toMatchObject({ exitCode: EXIT.usage });
  });

  it('130 when it is interrupted', async () => {
    const { exitCode } = await lint({ 'a.ts': FOUND }, [], AbortSignal.abort());
    expect(exitCode).toBe(EXIT.interrupted);
  });
});

describe('chargeonce lint', () => {
  it('leaves warnings out when asked for errors only', async () => {
    const { exitCode } = await lint({ 'a.ts': WARNED }, ['--errors-only']);
    expect(exitCode).toBe(EXIT.ok);
  });

  it('leaves out files that it is told to ignore', async () => {
    const files = { 'a.ts': FOUND, 'b.js': BROKEN, 'c.ts': CLEAN };
    const { exitCode, stdout } = await lint(files, [
      '--ignore',
      '**/a.ts',
      '--ignore',
      '**/*.js',
      '--json',
    ]);
    expect(exitCode).toBe(EXIT.ok);
    expect(JSON.parse(stdout)).toMatchObject({ files: 1 });
  });

  it('gives no warnings in tests, where keys are made up, but errors', async () => {
    const files = { 'a.test.ts': WARNED, 'b.spec.js': FOUND };
    const { stdout } = await lint(files, ['--format', 'json']);
    expect(JSON.parse(stdout)).toMatchObject({ errors: 1, warnings: 0 });
  });

  it('prints nothing but the log as SARIF', async () => {
    const { stdout } = await lint({ 'a.ts': FOUND }, ['--format', 'sarif']);
    expect(JSON.parse(stdout)).toMatchObject({
      version: '2.1.0',
      runs: [{ results: [{ ruleIndex: 3 }] }],
    });
  });
});
