import type { Command } from '@commander-js/extra-typings';
import type { Logger } from 'pino';
import { ensureHousekeeping } from '../../client/housekeeping-schedule.ts';
import type { TelemetryOptions } from '../../telemetry.ts';
import { SHUTDOWN_GRACE_MS } from '../../domain/timeouts.ts';
import { loadConfig } from '../../config.ts';
import { providerOf } from '../biller.ts';
import { CommandError, EXIT } from '../exit-codes.ts';
import { processOutput } from '../output.ts';
import { WORKER_READY_LINE } from '../parts.ts';
import { untilInterrupted, withSession, type Shell } from '../shell.ts';

const STOPPING =
  `stopping: charges under way finish, for at most ${SHUTDOWN_GRACE_MS / 1000} s, and no new ones are taken. ` +
  'Ask again to leave at once';
const CUT_OFF =
  'Charges under way are cut off; another worker takes each of them up in about 10 s, with the same key';

export function registerWorker(program: Command, shell: Shell): void {
  program
    .command('worker')
    .description('run a worker (workflows, claims, charges) until Ctrl-C; charges in flight finish')
    .option('--json', 'print the state as JSON lines')
    .action(async (options) => {
      const json = options.json === true;
      const needs = { temporal: true, stripe: true, waitsForVault: true };
      requireNoAdminToken(shell);
      await withSession(shell, { needs, json }, async ({ config, platform }) => {
        const { temporal, biller } = platform;
        if (temporal === null || biller === null)
          throw new Error('a worker needs Temporal and Stripe');
        // Says in our words that Temporal is not there; the worker's own connection says it in its own.
        const client = await platform.client();
        const logger = await telemetry({
          level: config.LOG_LEVEL,
          metricsPort: config.METRICS_PORT,
        });
        const { startWorker } = await import('../../worker.ts');
        const worker = await startWorker({
          databaseUrl: platform.databaseUrl,
          temporal,
          ...providerOf(biller),
          mode: config.mode,
          chargesPerSecond: config.CHARGES_PER_SECOND,
          reconcilePausesMs: config.RECONCILE_PAUSES,
          absenceQuietMs: config.ABSENCE_QUIET,
          maxCachedWorkflows: config.MAX_CACHED_WORKFLOWS,
          cacheDir: config.CHARGEONCE_CACHE,
          onDatabaseError: (error) => logger.warn({ err: error }, 'a database connection broke'),
        });
        await ensureHousekeeping(client.temporal).catch((error: unknown) =>
          logger.warn(
            { err: error },
            'the hourly sweep has no Schedule: "chargeonce sweep" does it by hand',
          ),
        );
        const output = processOutput(json);
        output.line(`${WORKER_READY_LINE} (pid ${process.pid}, ${config.mode} mode)`);
        output.result({ ready: true, pid: process.pid, mode: config.mode });
        await Promise.race([worker.stopped, untilInterrupted(shell)]);
        shell.lastWords = CUT_OFF;
        output.note(STOPPING);
        await worker.shutdown();
      });
    });
}

/** Whoever can raise a cap has none. */
function requireNoAdminToken({ env }: Shell): void {
  const { VAULT_URL: vault, VAULT_ADMIN_TOKEN: token } = loadConfig(env);
  if (vault === undefined || token === undefined) return;
  throw new CommandError(
    EXIT.usage,
    'VAULT_ADMIN_TOKEN: refused for a worker, which could raise its own cap with it. Unset it here',
  );
}

// The worker's SDK is the largest thing we load; only this command waits for it.
async function telemetry(options: TelemetryOptions): Promise<Logger> {
  const { installTelemetry } = await import('../../telemetry.ts');
  try {
    return installTelemetry(options);
  } catch (error) {
    if (options.metricsPort === undefined) throw error;
    const said = error instanceof Error ? error.message : String(error);
    throw new CommandError(
      EXIT.unavailable,
      `metrics cannot be served on METRICS_PORT ${options.metricsPort}: ${said}. Choose another port, or unset it`,
      error,
    );
  }
}
