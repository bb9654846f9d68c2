import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  symlinkSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

/** A copy of the project to plant bugs in; the working tree is only read. */
export interface ProjectCopy {
  readonly root: string;
  /** where reports go */
  readonly out: string;
  remove(): void;
}

/** Copies what git tracks or would track, with the working tree's packages linked. */
export function copyProject(project: string): ProjectCopy {
  const folder = mkdtempSync(path.join(tmpdir(), 'chargeonce-mutants-'));
  // As root, PostgreSQL runs as another user, who has to pass through.
  chmodSync(folder, 0o711);
  const root = path.join(folder, 'project');
  const out = path.join(folder, 'out');
  mkdirSync(out);
  const listed = execFileSync('git', ['ls-files', '-z', '-co', '--exclude-standard'], {
    cwd: project,
    encoding: 'utf8',
    maxBuffer: 64 * 1024 * 1024,
  });
  for (const file of listed.split('\0')) {
    const from = path.join(project, file);
    // Listed and deleted in the working tree: gone here too.
    if (file !== '' && existsSync(from)) cpSync(from, path.join(root, file));
  }
  linkPackages(path.join(project, 'node_modules'), path.join(root, 'node_modules'));
  return { root, out, remove: () => rmSync(folder, { recursive: true, force: true }) };
}

/** Links each package, not the folder, so that caches beside the packages are the copy's own. */
function linkPackages(from: string, to: string): void {
  mkdirSync(to, { recursive: true });
  for (const name of readdirSync(from)) {
    const isCache = name.startsWith('.') && name !== '.bin';
    if (!isCache) symlinkSync(path.join(from, name), path.join(to, name));
  }
}
