import { userInfo } from 'node:os';
import { loadConfig, type Config } from '../config.ts';
import { parseBillingPeriod } from '../domain/billing-period.ts';
import { parseCustomerId } from '../domain/customer-id.ts';
import type { RunRef, SlotRef } from '../domain/ids.ts';
import { parseBillingNamespace } from '../domain/namespace.ts';
import { CommandError, EXIT, type ExitCode } from './exit-codes.ts';
import { processOutput, type Output } from './output.ts';
import { openPlatform, type Needs, type Platform, type PlatformOptions } from './platform.ts';

/** What a command gets of the process: its environment, its end, its output. Made by src/cli.ts alone. */
export interface Shell {
  readonly env: NodeJS.ProcessEnv;
  /** aborted by Ctrl-C or SIGTERM */
  readonly interrupted: AbortSignal;
  /** said when the process is asked a second time and leaves at once: what that cuts off */
  lastWords?: string;
  /** what the process exits with when the command returns */
  exitCode: ExitCode;
}

export interface Session {
  readonly config: Config;
  readonly output: Output;
  readonly platform: Platform;
}

export interface SessionOptions {
  readonly needs: Needs;
  readonly json: boolean;
  readonly env?: NodeJS.ProcessEnv;
  readonly platform?: Pick<PlatformOptions, 'workerEnv' | 'simulatorArgs' | 'embeddedOnly'>;
}

/** Brings up what a command needs, runs it, and gives everything back, however it ends. */
export async function withSession<T>(
  shell: Shell,
  options: SessionOptions,
  work: (session: Session) => Promise<T>,
): Promise<T> {
  const env = options.env ?? shell.env;
  const output = processOutput(options.json);
  const config = loadConfig(env);
  const note = (message: string): void => output.note(`· ${message}`);
  const platform = await openPlatform({
    config,
    env,
    needs: options.needs,
    note,
    ...options.platform,
  });
  try {
    if (shell.interrupted.aborted) {
      throw new CommandError(EXIT.interrupted, 'interrupted before anything was done');
    }
    return await work({ config, output, platform });
  } finally {
    output.redraw('');
    await platform.close();
  }
}

/** A period and namespace as typed, or a usage error that says how to write them. */
export function parseRun(period: string, namespace: string): RunRef {
  const parsedPeriod = parseBillingPeriod(period);
  if (!parsedPeriod.ok) throw new CommandError(EXIT.usage, parsedPeriod.problem);
  const parsedNamespace = parseBillingNamespace(namespace);
  if (!parsedNamespace.ok) throw new CommandError(EXIT.usage, parsedNamespace.problem);
  return { period: parsedPeriod.period, namespace: parsedNamespace.namespace };
}

/** A customer's slot as typed, or a usage error that says how to write it. */
export function parseSlot(period: string, customer: string, namespace: string): SlotRef {
  const run = parseRun(period, namespace);
  const id = parseCustomerId(customer);
  if (!id.ok) throw new CommandError(EXIT.usage, id.problem);
  return { ...run, customerId: id.customerId };
}

/** Who gives the order, when not said: the login name, which the audit log shows. */
export function defaultOperator(): string {
  try {
    return userInfo().username;
  } catch {
    return 'unknown operator';
  }
}

/** Waits for Ctrl-C or SIGTERM. */
export async function untilInterrupted(shell: Shell): Promise<void> {
  const { interrupted } = shell;
  if (interrupted.aborted) return;
  await new Promise<void>((resolve) => {
    // An idle event loop would end the process: the timer keeps it until somebody ends it.
    const alive = setInterval(() => {}, 60_000);
    interrupted.addEventListener(
      'abort',
      () => {
        clearInterval(alive);
        resolve();
      },
      { once: true },
    );
  });
}
