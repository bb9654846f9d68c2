import { spawn } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { expect } from 'vitest';
import { z } from 'zod';
import { defaultCacheDir } from '../../src/embedded/temporal-binaries.ts';
import { atEndOfFile } from './end-of-file.ts';
import { temporalBinary } from './temporal-servers.ts';

const COMMAND = fileURLToPath(new URL('../../bin/chargeonce', import.meta.url));

/** Longest that one command of a test may take; the slowest starts every part on a busy machine. */
const COMMAND_TIMEOUT_MS = 120_000;
/** `up` stays as long as the tests of its file need it. */
const UP_TIMEOUT_MS = 15 * 60_000;
const POLL_MS = 50;

/** How a command ended. */
export interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
  /** both, for what must be in neither */
  readonly output: string;
  /** the last line of stdout as JSON */
  json(): Record<string, unknown>;
}

/** A command under way. */
export interface Running {
  readonly pid: number;
  readonly ended: Promise<Ended>;
  output(): string;
  /** Resolves when the pattern is in the output; rejects when the command ends without it. */
  shows(pattern: RegExp): Promise<RegExpExecArray>;
  kill(signal: NodeJS.Signals): void;
}

/** A home of its own: its folder, its environment, and what of it is running. */
export interface TestHome {
  readonly folder: string;
  /** Runs a command to its end. */
  run(args: readonly string[], options?: CommandOptions): Promise<Ended>;
  /** Starts a command and goes on. */
  start(args: readonly string[], options?: CommandOptions): Running;
  /** Writes a file below the home's parent and returns its path. */
  file(name: string, content: string): Promise<string>;
  /** Processes that were started for this home, each as `pid command`. */
  processes(): readonly string[];
  /** Waits until nothing of this home runs; throws with what is left. */
  idle(): Promise<void>;
}

interface CommandOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly input?: string;
}

/**
 * A fresh home in a folder of its own, removed when the test file is done. Commands get a minimal environment, so that nothing
 * configured on this machine plays along.
 */
export async function testHome(env: Readonly<Record<string, string>> = {}): Promise<TestHome> {
  const temporal = await temporalBinary('temporal');
  const folder = await mkdtemp(path.join(tmpdir(), 'chargeonce-e2e-'));
  // As root, PostgreSQL runs as another user, who has to pass through.
  await chmod(folder, 0o755);
  const base: Record<string, string> = {
    PATH: process.env['PATH'] ?? '',
    // Also the mark by which a process of this home is known: every part inherits it.
    HOME: folder,
    CHARGEONCE_HOME: path.join(folder, 'home'),
    TEMPORAL_CLI_PATH: temporal,
    CHARGEONCE_CACHE: defaultCacheDir(process.env),
    TEMPORAL_SOURCES: 'wheel',
    ...(process.env['NODE_COMPILE_CACHE'] === undefined
      ? {}
      : { NODE_COMPILE_CACHE: process.env['NODE_COMPILE_CACHE'] }),
    ...env,
  };
  const start: TestHome['start'] = (args, options = {}) =>
    startCommand(args, { ...base, ...options.env }, options.input);
  const home: TestHome = {
    folder,
    start,
    run: (args, options) => start(args, options).ended,
    async file(name, content) {
      const at = path.join(folder, name);
      await writeFile(at, content);
      return at;
    },
    processes: () => processesOf(folder),
    async idle() {
      await waitFor(() => processesOf(folder).length === 0, {
        timeoutMs: 20_000,
        otherwise: () => `still running: ${processesOf(folder).join('; ')}`,
      });
    },
  };
  atEndOfFile(async () => {
    for (const line of processesOf(folder)) killQuietly(Number(line.split(' ')[0]));
    await waitFor(() => processesOf(folder).length === 0, { timeoutMs: 40_000 }).catch(() => {});
    await rm(folder, { recursive: true, force: true, maxRetries: 5 });
  });
  return home;
}

function startCommand(
  args: readonly string[],
  env: Record<string, string>,
  input: string | undefined,
): Running {
  // A process group of its own: a signal for the command must not reach the test.
  const child = spawn(COMMAND, args, { env, stdio: 'pipe', detached: true });
  let stdout = '';
  let stderr = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  child.stdin.on('error', () => {}).end(input ?? '');
  const longest = args[0] === 'up' ? UP_TIMEOUT_MS : COMMAND_TIMEOUT_MS;
  const late = setTimeout(() => child.kill('SIGKILL'), longest);
  let over = false;
  const ended = new Promise<Ended>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code) => {
      over = true;
      clearTimeout(late);
      resolve({
        code,
        stdout,
        stderr,
        output: stdout + stderr,
        json: () => lastJson(stdout, stderr),
      });
    });
  });
  return {
    pid: child.pid ?? 0,
    ended,
    output: () => stdout + stderr,
    async shows(pattern) {
      await waitFor(() => over || pattern.test(stdout + stderr), {
        timeoutMs: COMMAND_TIMEOUT_MS,
        otherwise: () => `no ${String(pattern)} in: ${stdout}${stderr}`,
      });
      const found = pattern.exec(stdout + stderr);
      if (found === null) throw new Error(`ended without ${String(pattern)}: ${stdout}${stderr}`);
      return found;
    },
    kill: (signal) => void child.kill(signal),
  };
}

function lastJson(stdout: string, stderr: string): Record<string, unknown> {
  const last = stdout.trimEnd().split('\n').at(-1) ?? '';
  try {
    return z.record(z.string(), z.unknown()).parse(JSON.parse(last));
  } catch {
    throw new Error(`the last line is no JSON: "${last}"\n${stderr}`);
  }
}

/** Expects an exit code, and shows the output when it is another one. */
export function expectCode(ended: Ended, code: number): void {
  if (ended.code !== code) {
    throw new Error(`exit code ${ended.code}, expected ${code}:\n${ended.output}`);
  }
}

/** Waits for a condition, polling. */
export async function waitFor(
  condition: () => boolean | Promise<boolean>,
  options: { readonly timeoutMs: number; readonly otherwise?: () => string },
): Promise<void> {
  const deadline = performance.now() + options.timeoutMs;
  while (!(await condition())) {
    if (performance.now() > deadline) {
      throw new Error(options.otherwise?.() ?? `not within ${options.timeoutMs} ms`);
    }
    await sleep(POLL_MS);
  }
}

/** Command line of a process, or '' when it is gone. */
export function commandLine(pid: number): string {
  return readProc(pid, 'cmdline').replaceAll('\0', ' ').trim();
}

/** Every process whose command line or environment names the folder, as `pid command`. */
function processesOf(folder: string): string[] {
  const found: string[] = [];
  for (const name of readdirSync('/proc')) {
    const pid = Number(name);
    if (!Number.isInteger(pid) || pid === process.pid) continue;
    const command = commandLine(pid);
    // A zombie has no command line: it runs no more.
    if (command === '') continue;
    if (command.includes(folder) || readProc(pid, 'environ').includes(`HOME=${folder}\0`)) {
      found.push(`${pid} ${command.slice(0, 160)}`);
    }
  }
  return found;
}

function readProc(pid: number, what: string): string {
  const file = `/proc/${pid}/${what}`;
  try {
    return existsSync(file) ? readFileSync(file, 'utf8') : '';
  } catch {
    return '';
  }
}

function killQuietly(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It went by itself.
  }
}

export interface CsvCustomer {
  readonly id: string;
  readonly card?: string;
  readonly amount?: string;
  readonly currency?: string;
}

/** A CSV file's text. A customer without a card has no payment method. */
export function customersCsv(customers: readonly CsvCustomer[]): string {
  const lines = customers.map(({ id, card = 'pm_card_visa', amount = '10.00', currency = 'usd' }) =>
    [id, `cus_${id}`, card, amount, currency].join(','),
  );
  return ['customer_id,stripe_customer_id,payment_method_id,amount,currency', ...lines, ''].join(
    '\n',
  );
}

/** `c1` to `c<n>`, each with a good card and 10.00 USD. */
export function goodCustomers(count: number): CsvCustomer[] {
  return Array.from({ length: count }, (_, index) => ({ id: `c${index + 1}` }));
}

const ledgerPage = z.object({
  entries: z.array(
    z.object({
      metadata: z.record(z.string(), z.string()),
      account: z.string(),
      charges: z.array(z.object({ status: z.string() })),
    }),
  ),
  has_more: z.boolean(),
});

/** An entry of the simulator's ledger, as far as tests look at it. */
export type LedgerEntry = z.infer<typeof ledgerPage>['entries'][number];

/** Successful charges by customer, as the provider has them. */
export async function chargesByCustomer(
  simulatorUrl: string,
  period: string,
): Promise<ReadonlyMap<string, number>> {
  const charged = new Map<string, number>();
  for (const entry of await ledgerEntries(simulatorUrl)) {
    if (entry.metadata['chargeonce_period'] !== period) continue;
    const customer = entry.metadata['chargeonce_customer'] ?? 'nobody';
    const good = entry.charges.filter((charge) => charge.status === 'succeeded').length;
    charged.set(customer, (charged.get(customer) ?? 0) + good);
  }
  return charged;
}

/** The whole ledger; a test that fills more than one page has to say so. */
export async function ledgerEntries(simulatorUrl: string): Promise<readonly LedgerEntry[]> {
  const answer = await fetch(`${simulatorUrl}/_sim/ledger?limit=5000`);
  const page = ledgerPage.parse(await answer.json());
  expect(page.has_more).toBe(false);
  return page.entries;
}
