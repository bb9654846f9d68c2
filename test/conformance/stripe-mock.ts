import { execFile, spawn } from 'node:child_process';
import { constants } from 'node:fs';
import { access, mkdir } from 'node:fs/promises';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import { defaultCacheDir } from '../../src/embedded/temporal-binaries.ts';

const run = promisify(execFile);

// Carries Stripe's OpenAPI of 2026-08-26. A later one is taken on purpose, never by itself.
const MODULE = 'github.com/stripe/stripe-mock@v0.203.0';

// A first build fetches a dozen modules and compiles for about a minute on two cores.
const BUILD_TIMEOUT_MS = 600_000;
const START_TIMEOUT_MS = 30_000;

export const PATH_VARIABLE = 'STRIPE_MOCK_PATH';

/** No stripe-mock, and no Go to build one; the message says what to do. */
export class StripeMockMissing extends Error {
  override readonly name = 'StripeMockMissing';
}

/** Finds stripe-mock by variable, PATH and cache, else builds it with Go into the cache. */
export async function locateStripeMock(env: NodeJS.ProcessEnv): Promise<string> {
  const configured = env[PATH_VARIABLE];
  if (configured !== undefined && configured !== '') {
    if (await isExecutable(configured)) return configured;
    throw new StripeMockMissing(`${PATH_VARIABLE} names ${configured}, which cannot be run`);
  }
  const onPath = await findOnPath('stripe-mock', env['PATH'] ?? '');
  if (onPath !== undefined) return onPath;
  const folder = path.join(defaultCacheDir(env), MODULE.replaceAll(/[^A-Za-z0-9.]+/g, '-'));
  const cached = path.join(folder, 'stripe-mock');
  if (await isExecutable(cached)) return cached;
  await build(folder, env);
  return cached;
}

async function build(folder: string, env: NodeJS.ProcessEnv): Promise<void> {
  const go = await findOnPath('go', env['PATH'] ?? '');
  if (go === undefined) {
    throw new StripeMockMissing(
      `stripe-mock is neither on PATH nor in ${folder}, and there is no Go to build it.\n` +
        `To mend: install Go and run this again, or set ${PATH_VARIABLE} to a stripe-mock built by\n` +
        `  go install ${MODULE}`,
    );
  }
  await mkdir(folder, { recursive: true });
  try {
    await run(go, ['install', MODULE], {
      env: { ...env, GOBIN: folder },
      timeout: BUILD_TIMEOUT_MS,
    });
  } catch (error) {
    const said = error instanceof Error ? error.message : String(error);
    throw new StripeMockMissing(`go install ${MODULE} failed:\n${said}`, { cause: error });
  }
}

async function findOnPath(name: string, searchPath: string): Promise<string | undefined> {
  for (const folder of searchPath.split(path.delimiter)) {
    const candidate = path.join(folder, name);
    if (folder !== '' && (await isExecutable(candidate))) return candidate;
  }
  return undefined;
}

async function isExecutable(file: string): Promise<boolean> {
  return access(file, constants.X_OK).then(
    () => true,
    () => false,
  );
}

export type StripeMock = { readonly url: string; stop(): Promise<void> };

/** Starts it on free ports of 127.0.0.1; it would open its HTTPS port to the world by itself. */
export async function startStripeMock(binary: string): Promise<StripeMock> {
  const child = spawn(binary, ['-http-addr', '127.0.0.1:0', '-https-addr', '127.0.0.1:0'], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = new Promise<void>((resolve) => {
    child.once('close', () => resolve());
  });
  const stop = async () => {
    child.kill();
    await ended;
  };
  const failed = new Promise<never>((_, reject) => {
    child.once('error', reject);
    child.once('exit', (code) => reject(new Error(`stripe-mock ended with code ${code}`)));
    setTimeout(
      () => reject(new Error('stripe-mock did not start in time')),
      START_TIMEOUT_MS,
    ).unref();
  });
  const listening = (async () => {
    for await (const line of createInterface({ input: child.stdout })) {
      const address = /HTTP at address: (127\.0\.0\.1:\d+)/.exec(line)?.[1];
      if (address !== undefined) return `http://${address}`;
    }
    throw new Error('stripe-mock ended without listening');
  })();
  // Whoever loses the race may still reject later.
  failed.catch(() => undefined);
  listening.catch(() => undefined);
  try {
    return { url: await Promise.race([listening, failed]), stop };
  } catch (error) {
    await stop();
    throw error;
  }
}
