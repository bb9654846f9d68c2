import path from 'node:path';
import { filesMeant, readSource, relativeImportsOf } from './files.ts';
import type { Finding } from './finding.ts';
import type { ImportedKeys, KeyParameter } from './key-parameters.ts';
import { lintSource } from './lint-source.ts';

interface FileFinding extends Finding {
  readonly file: string;
}

/** A file that could not be looked at. */
interface FileProblem {
  readonly file: string;
  readonly line: number;
  readonly column: number;
  readonly message: string;
}

export interface LintReport {
  readonly files: number;
  readonly findings: readonly FileFinding[];
  readonly problems: readonly FileProblem[];
  /** findings that a comment with a reason switches off */
  readonly suppressed: number;
  /** the signal came before the last file */
  readonly interrupted: boolean;
}

export interface LintOptions {
  readonly onProgress?: (done: number, files: number) => void;
  readonly signal?: AbortSignal;
}

interface Known {
  readonly findings: readonly Finding[];
  readonly problem: FileProblem | null;
  readonly suppressed: number;
}

/**
 * Looks through files. Each is looked at by itself; then those again that hand a key to a function of another one, when
 * its parameter is called `idempotencyKey`.
 */
export async function lintFiles(
  files: readonly string[],
  options: LintOptions = {},
): Promise<LintReport> {
  const known = new Map<string, Known>();
  const imports = new Map<string, readonly string[]>();
  const takers = new Map<string, readonly KeyParameter[]>();
  let done = 0;
  const stopped = (): boolean => options.signal?.aborted === true;
  for (const file of files) {
    if (stopped()) break;
    const text = await textOf(file, known);
    if (text !== null) {
      imports.set(file, relativeImportsOf(text));
      const takesKeys = look({ file, text }, known);
      if (takesKeys.length > 0) takers.set(path.resolve(file), takesKeys);
    }
    done += 1;
    options.onProgress?.(done, files.length);
  }
  for (const [file, specifiers] of takers.size === 0 ? [] : imports) {
    if (stopped()) break;
    const keys = keysBehind(file, specifiers, takers);
    const text = keys === null ? null : await textOf(file, known);
    if (keys !== null && text !== null) look({ file, text }, known, keys);
  }
  return { ...summary(known), files: done, interrupted: stopped() };
}

async function textOf(file: string, known: Map<string, Known>): Promise<string | null> {
  try {
    const text = await readSource(file);
    if (text === null) known.set(file, failed(file, 'it is too large to be looked at', null));
    return text;
  } catch (error) {
    known.set(file, failed(file, error instanceof Error ? error.message : String(error), null));
    return null;
  }
}

/** Answers what the file takes as keys. */
function look(
  { file, text }: { readonly file: string; readonly text: string },
  known: Map<string, Known>,
  keys?: ImportedKeys,
): readonly KeyParameter[] {
  try {
    const report = lintSource(file, text, keys);
    if (report.kind === 'passed') return [];
    if (report.kind === 'unparsed') {
      known.set(file, failed(file, report.message, report));
      return [];
    }
    const { findings, suppressed, takesKeys } = report;
    known.set(file, { findings, suppressed, problem: null });
    return takesKeys;
  } catch (error) {
    // One file that this program is not up to must not hide the others.
    const message = error instanceof Error ? error.message : String(error);
    known.set(file, failed(file, `it could not be analysed: ${message}`, null));
    return [];
  }
}

function failed(
  file: string,
  message: string,
  at: { readonly line: number; readonly column: number } | null,
): Known {
  const problem = { file, line: at?.line ?? 1, column: at?.column ?? 1, message };
  return { findings: [], suppressed: 0, problem };
}

function keysBehind(
  file: string,
  specifiers: readonly string[],
  takers: ReadonlyMap<string, readonly KeyParameter[]>,
): ImportedKeys | null {
  const found = new Map<string, readonly KeyParameter[]>();
  for (const specifier of specifiers) {
    const meant = filesMeant(file, specifier).find((one) => takers.has(one));
    if (meant !== undefined) found.set(specifier, takers.get(meant) ?? []);
  }
  return found.size === 0 ? null : (specifier) => found.get(specifier) ?? [];
}

function summary(
  known: ReadonlyMap<string, Known>,
): Pick<LintReport, 'findings' | 'problems' | 'suppressed'> {
  const all = [...known].sort(([one], [other]) => (one < other ? -1 : 1));
  return {
    findings: all.flatMap(([file, { findings }]) =>
      findings.map((finding) => ({ file, ...finding })),
    ),
    problems: all.flatMap(([, { problem }]) => (problem === null ? [] : [problem])),
    suppressed: all.reduce((sum, [, { suppressed }]) => sum + suppressed, 0),
  };
}
