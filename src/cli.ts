import { Command } from '@commander-js/extra-typings';
import { CommanderError } from 'commander';
import { registerAudit } from './cli/commands/audit.ts';
import { registerControl } from './cli/commands/control.ts';
import { registerDemo } from './cli/commands/demo.ts';
import { registerDoctor } from './cli/commands/doctor.ts';
import { registerDuplicates } from './cli/commands/duplicates.ts';
import { registerEnvironment } from './cli/commands/environment.ts';
import { registerFailures } from './cli/commands/failures.ts';
import { registerIdempotency } from './cli/commands/idempotency.ts';
import { registerImport } from './cli/commands/import.ts';
import { registerLint } from './cli/commands/lint.ts';
import { registerRerun } from './cli/commands/rerun.ts';
import { registerResolve } from './cli/commands/resolve.ts';
import { registerRun } from './cli/commands/run.ts';
import { registerSchedule } from './cli/commands/schedule.ts';
import { registerServer } from './cli/commands/server.ts';
import { registerSetup } from './cli/commands/setup.ts';
import { registerSimulator } from './cli/commands/simulator.ts';
import { registerStatus } from './cli/commands/status.ts';
import { registerSweep } from './cli/commands/sweep.ts';
import { registerTokens } from './cli/commands/tokens.ts';
import { registerUp } from './cli/commands/up.ts';
import { registerVault } from './cli/commands/vault.ts';
import { registerWorker } from './cli/commands/worker.ts';
import { CommandError, EXIT, type ExitCode } from './cli/exit-codes.ts';
import type { Shell } from './cli/shell.ts';
import { ConfigError } from './config.ts';
import { VERSION } from './version.ts';

/** A second signal this soon after the first one is the same one. */
const SAME_PRESS_MS = 1_000;

/** Parses the arguments, runs the command, and returns the exit code. */
async function main(argv: readonly string[]): Promise<ExitCode> {
  const interrupt = new AbortController();
  const shell: Shell = {
    env: process.env,
    interrupted: interrupt.signal,
    exitCode: EXIT.ok,
  };
  let askedAt = 0;
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.on(signal, () => {
      if (!interrupt.signal.aborted) {
        askedAt = performance.now();
        interrupt.abort();
        return;
      }
      // npm and shells pass on a signal that the whole process group has had already: one press, not two.
      if (performance.now() - askedAt < SAME_PRESS_MS) return;
      // Embedded parts end with the connection that this process held.
      process.stderr.write(`${signal} again: leaving at once. ${shell.lastWords ?? ''}\n`);
      process.exit(EXIT.interrupted);
    });
  }
  const program = buildProgram(shell);
  try {
    await program.parseAsync([...argv]);
    return shell.exitCode;
  } catch (error) {
    return report(error, argv);
  }
}

function buildProgram(shell: Shell): Command {
  const program = new Command('chargeonce')
    .description(
      'A durable billing run on Temporal: every customer charged at most once per billing period.',
    )
    .version(VERSION)
    .showHelpAfterError('(add --help for the options)')
    .configureHelp({ sortSubcommands: true })
    .exitOverride();
  const registrations = [
    registerDemo,
    registerUp,
    registerImport,
    registerRun,
    registerStatus,
    registerRerun,
    registerResolve,
    registerSweep,
    registerControl,
    registerSchedule,
    registerAudit,
    registerDuplicates,
    registerFailures,
    registerLint,
    registerEnvironment,
    registerWorker,
    registerServer,
    registerTokens,
    registerIdempotency,
    registerVault,
    registerSimulator,
    registerSetup,
    registerDoctor,
  ];
  for (const register of registrations) register(program, shell);
  program.addHelpText(
    'after',
    '\nExit codes: 0 done · 1 failed, or the audit found a disagreement, or duplicates or lint found some, or sums of the vault differ · 2 bad input · 3 not finished, or outcomes unknown\n' +
      '            4 no verdict · 5 a part is not available · 130 interrupted\n' +
      'With nothing configured, commands bring up PostgreSQL, Temporal and a Stripe simulator on this machine.',
  );
  return program;
}

/** Says what went wrong, for people or as JSON, and picks the exit code. Never prints a stack without being asked. */
function report(error: unknown, argv: readonly string[]): ExitCode {
  if (error instanceof CommanderError) {
    // Commander has printed its own message; help and version are not errors.
    if (error.exitCode === 0) return EXIT.ok;
    return asJson(error.message.replace(/^error: /, ''), EXIT.usage, argv);
  }
  const known = error instanceof CommandError || error instanceof ConfigError;
  const exitCode =
    error instanceof CommandError ? error.exitCode : known ? EXIT.usage : EXIT.failed;
  const message = error instanceof Error ? error.message : String(error);
  process.stderr.write(`error: ${message}\n`);
  if (!known && error instanceof Error && process.env['DEBUG'] !== undefined) {
    process.stderr.write(`${error.stack ?? ''}\n`);
  }
  return asJson(message, exitCode, argv);
}

/** The error as the last line of stdout for whoever asked for JSON. */
function asJson(message: string, exitCode: ExitCode, argv: readonly string[]): ExitCode {
  if (argv.includes('--json')) {
    process.stdout.write(`${JSON.stringify({ error: message, exitCode })}\n`);
  }
  return exitCode;
}

// The reader of a pipe may leave early (`| head`); the command still cleans up after itself.
for (const stream of [process.stdout, process.stderr]) {
  stream.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error;
  });
}

process.exitCode = await main(process.argv);
// Handles that a library keeps open must not keep a finished command alive.
setTimeout(() => process.exit(), 2_000).unref();
