import { Command } from '@commander-js/extra-typings';
import { vi } from 'vitest';
import { CommandError } from '../../src/cli/exit-codes.ts';
import type { Shell } from '../../src/cli/shell.ts';

export interface Commanded {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
  /** the last line of stdout as JSON */
  json(): unknown;
}

/**
 * Runs one command in this process, as src/cli.ts does: a process of its own costs a second of CI. Its
 * environment is what is given and nothing else.
 */
export async function runInProcess(
  register: (program: Command, shell: Shell) => void,
  args: readonly string[],
  env: Readonly<Record<string, string>>,
): Promise<Commanded> {
  const shell: Shell = { env, interrupted: new AbortController().signal, exitCode: 0 };
  const program = new Command('chargeonce').exitOverride();
  register(program, shell);
  const texts = { stdout: '', stderr: '' };
  const spies = (['stdout', 'stderr'] as const).map((stream) =>
    vi.spyOn(process[stream], 'write').mockImplementation((text) => {
      texts[stream] += String(text);
      return true;
    }),
  );
  let code: number;
  try {
    await program.parseAsync(['node', 'chargeonce', ...args]);
    code = shell.exitCode;
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    code = error.exitCode;
    texts.stderr += error.message;
  } finally {
    for (const spy of spies) spy.mockRestore();
  }
  const json = (): unknown => JSON.parse(texts.stdout.trimEnd().split('\n').at(-1) ?? '');
  return { code, ...texts, json };
}
