import { createInterface } from 'node:readline/promises';
import type { Output } from './output.ts';

/** Asks on a terminal; without one nothing is done unless --yes says so. */
export async function confirmed(output: Output, question: string): Promise<boolean> {
  if (!output.interactive || !process.stdin.isTTY) {
    output.note('not a terminal: add --yes to do this');
    return false;
  }
  const prompt = createInterface({ input: process.stdin, output: process.stderr });
  const answer = await prompt.question(`${question} [y/N] `);
  prompt.close();
  return /^y(es)?$/i.test(answer.trim());
}
