import { readdir, readFile, stat } from 'node:fs/promises';
import path from 'node:path';

const SOURCE = /\.(?:ts|tsx|js|jsx|mjs|cjs|mts|cts)$/;
const DECLARATION = /\.d\.[cm]?ts$/;
const SKIPPED = new Set(['node_modules', 'dist', '.git', 'coverage', '.next']);
/** A bundle: nobody wrote it by hand, and what it was made of is elsewhere. */
const MOST_BYTES = 2_000_000;

/**
 * The source files at a path: the file itself, or all below a folder. A folder that is named is read whatever it is
 * called; folders of others' code below it are not. Throws what the file system says when the path is not there.
 */
export async function sourceFilesAt(place: string): Promise<string[]> {
  const found = await stat(place);
  if (!found.isDirectory()) return [place];
  const files: string[] = [];
  const folders = [place];
  for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
    const entries = await readdir(folder, { withFileTypes: true });
    for (const entry of entries.sort((one, other) => (one.name < other.name ? -1 : 1))) {
      const whole = path.join(folder, entry.name);
      // Links are not followed: they may lead in a circle.
      if (entry.isDirectory() && !SKIPPED.has(entry.name)) folders.push(whole);
      else if (entry.isFile() && SOURCE.test(entry.name) && !DECLARATION.test(entry.name))
        files.push(whole);
    }
  }
  return files.sort();
}

/** The text of a file; null for one that is too large to have been written by a person. */
export async function readSource(file: string): Promise<string | null> {
  const text = await readFile(file, 'utf8');
  return text.length > MOST_BYTES ? null : text.replace(/^\uFEFF/, ' ');
}

const IMPORTS = /\b(?:from|import|require)\s*\(?\s*['"](\.{1,2}\/[^'"\n]+)['"]/g;

/** What a text imports by a relative path. */
export function relativeImportsOf(text: string): string[] {
  return [...new Set([...text.matchAll(IMPORTS)].map((match) => match[1] ?? ''))];
}

/** The files that an import may mean: `./a.js` is `./a.ts` before it is built. */
export function filesMeant(from: string, specifier: string): string[] {
  const whole = path.resolve(path.dirname(from), specifier);
  const stem = whole.replace(/\.([cm]?)jsx?$/, '');
  const endings = ['.ts', '.tsx', '.js', '.jsx', '.mts', '.cts', '.mjs', '.cjs'];
  return [
    whole,
    ...endings.map((ending) => stem + ending),
    ...endings.map((ending) => whole + ending),
    ...endings.map((ending) => path.join(whole, `index${ending}`)),
  ];
}
