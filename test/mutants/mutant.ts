import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';

/** One replacement in a file of the project; `find` stands in it exactly once. */
interface Edit {
  readonly file: string;
  readonly find: string;
  readonly replace: string;
}

/** The named test that has to fail while the bug is planted. */
export interface Catcher {
  readonly project: 'unit' | 'workflow' | 'integration' | 'vault' | 'http';
  readonly file: string;
  /** as the test file writes it, placeholders of `it.each` included, without the case ids before it */
  readonly title: string;
}

/** A bug to plant, and who has to notice it. */
export interface Mutant {
  readonly id: string;
  /** what the code does with it */
  readonly bug: string;
  readonly edits: readonly Edit[];
  readonly catcher: Catcher;
  /**
   * words of the guard that stops the bug before the catcher can assert anything: a failure with them counts
   * as well. Without it the catcher has to fail by an assertion of its own.
   */
  readonly stoppedBy?: string;
  /** the simulation finds it too, within a few hundred seeds */
  readonly simulated?: boolean;
}

/** Why a mutant does not fit the sources below `root`, or null. */
export function whyNotPlantable(root: string, mutant: Mutant): string | null {
  for (const { file, find, replace } of mutant.edits) {
    let text: string;
    try {
      text = readFileSync(path.join(root, file), 'utf8');
    } catch {
      return `${file} does not exist`;
    }
    const times = text.split(find).length - 1;
    if (times !== 1) return `${file}: the text to replace stands there ${times} times`;
    if (find === replace) return `${file}: the replacement changes nothing`;
  }
  return null;
}

/** Writes the bug into the sources below `root`, and returns what takes it out again. */
export function plant(root: string, mutant: Mutant): () => void {
  const problem = whyNotPlantable(root, mutant);
  if (problem !== null) throw new Error(`${mutant.id} cannot be planted: ${problem}`);
  const before = new Map<string, string>();
  for (const { file, find, replace } of mutant.edits) {
    const target = path.join(root, file);
    const text = readFileSync(target, 'utf8');
    if (!before.has(target)) before.set(target, text);
    // A function, because a string's `$` would have a meaning.
    writeFileSync(
      target,
      text.replace(find, () => replace),
    );
  }
  return () => {
    for (const [target, text] of before) writeFileSync(target, text);
  };
}

/** Why the catcher's test cannot be found below `root`, or null. */
export function whyNoCatcher(root: string, { file, title, project }: Catcher): string | null {
  // The vault's files are a project of their own in the folder of another.
  const folder = project === 'vault' ? 'integration' : project;
  if (!file.startsWith(`test/${folder}/`)) return `${file} is not of the project ${project}`;
  let text: string;
  try {
    text = readFileSync(path.join(root, file), 'utf8');
  } catch {
    return `${file} does not exist`;
  }
  const literal = new RegExp(`(['"\`])${CASE_IDS}${escape(title)}\\1`, 'g');
  const times = [...text.matchAll(literal)].length;
  return times === 1 ? null : `${file} has ${times} tests "${title}"`;
}

/** The cases that a test stands for, before its title: "E5, M20: ". They come and go, the title stays. */
const CASE_IDS = String.raw`(?:[A-Z]\d*[a-h]?(?:, [A-Z]\d*[a-h]?)*: )?`;

/** A pattern for the names that a title of the source stands for, placeholders filled in. */
export function titlePattern(title: string): string {
  const parts = title.split(/%[sdifjop#]|\$\{[^}]*\}/);
  return CASE_IDS + parts.map(escape).join('.*');
}

function escape(text: string): string {
  return text.replaceAll(/[$()*+.?[\\\]^{|}]/g, String.raw`\$&`);
}
