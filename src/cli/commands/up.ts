import type { Command } from '@commander-js/extra-typings';
import { table } from '../output.ts';
import { untilInterrupted, withSession, type Shell } from '../shell.ts';

export function registerUp(program: Command, shell: Shell): void {
  program
    .command('up')
    .description(
      'bring up everything that is not configured (PostgreSQL, Temporal with its UI, simulator, vault, worker, server) until Ctrl-C',
    )
    .option('--json', 'print the addresses as one JSON object')
    .action(async (options) => {
      const needs = { temporal: true, stripe: true, worker: true, server: true };
      await withSession(
        shell,
        { needs, json: options.json === true },
        async ({ platform, output, config }) => {
          const parts = (await platform.lease?.status()) ?? [];
          output.result({
            home: config.CHARGEONCE_HOME,
            temporalUiUrl: platform.temporalUiUrl,
            simulatorUrl: platform.simulatorUrl,
            serverUrl: platform.serverUrl(),
            vaultUrl: platform.lease?.endpoints.vaultUrl ?? null,
            vaultAdminUrl: platform.lease?.endpoints.vaultAdminUrl ?? null,
            parts: parts.map(({ name, state, pid, url, port }) => ({
              name,
              state,
              pid,
              url,
              port,
            })),
          });
          output.line(
            table(
              ['part', 'state', 'pid', 'address', 'log'],
              parts.map((part) => [
                part.name,
                part.state,
                String(part.pid ?? ''),
                part.url ?? String(part.port ?? ''),
                part.log,
              ]),
            ),
          );
          if (platform.temporalUiUrl !== null)
            output.line(`Temporal UI: ${platform.temporalUiUrl}`);
          output.note('Ctrl-C stops what only this command needs');
          await untilInterrupted(shell);
        },
      );
    });
}
