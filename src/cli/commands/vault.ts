import type { Command } from '@commander-js/extra-typings';
import { createLogger } from '../../log.ts';
import type { RunningVault, VaultOptions } from '../../vault.ts';
import { CommandError, EXIT } from '../exit-codes.ts';
import { isLoopback, listenProblem, port } from '../listen-options.ts';
import { untilInterrupted, withSession, type Session, type Shell } from '../shell.ts';
import { VAULT_ADMIN_PORT, VAULT_PROXY_PORT } from '../vault-part.ts';
import { registerVaultKeys } from './vault-keys.ts';
import { registerVaultReads } from './vault-reads.ts';

const EXPLANATION = `
Stripe's API with a hard cap in front: clients use it unchanged but for base URL and key (docs/vault.md).
It alone has STRIPE_API_KEY, and needs VAULT_ADMIN_TOKEN: echo "vat_$(openssl rand -hex 32)"

Plain HTTP: put TLS in front of both ports before they listen beyond this machine.`;

export function registerVault(program: Command, shell: Shell): void {
  // Otherwise the --json of `vault log --json` would be taken for that of `vault`.
  program.enablePositionalOptions();
  const vault = program
    .command('vault')
    .description('run the vault until Ctrl-C: the only holder of the Stripe key, with a hard cap')
    .option(
      '--proxy-port <port>',
      `where clients send; 0 takes any free one (default: VAULT_PROXY_PORT or ${VAULT_PROXY_PORT})`,
      port,
    )
    .option(
      '--admin-port <port>',
      `admin API; 0 takes any free one (default: VAULT_ADMIN_PORT or ${VAULT_ADMIN_PORT})`,
      port,
    )
    .option('--proxy-host <host>', 'address the proxy listens on', '127.0.0.1')
    .option('--admin-host <host>', 'address the admin API listens on', '127.0.0.1')
    .option('--json', 'print the addresses as one JSON object')
    .addHelpText('after', EXPLANATION)
    .action(async (options) => {
      const needs = { stripe: true, anyAccount: true };
      await withSession(shell, { needs, json: options.json === true }, async (session) => {
        const { config, output } = session;
        const running = await start({
          ...world(session),
          proxy: {
            host: options.proxyHost,
            port: options.proxyPort ?? config.VAULT_PROXY_PORT ?? VAULT_PROXY_PORT,
          },
          admin: {
            host: options.adminHost,
            port: options.adminPort ?? config.VAULT_ADMIN_PORT ?? VAULT_ADMIN_PORT,
          },
        });
        try {
          for (const host of [options.proxyHost, options.adminHost])
            if (!isLoopback(host))
              output.note(`· listens on ${host}, without TLS: put a proxy with TLS in front`);
          announce(session, running);
          await untilInterrupted(shell);
        } finally {
          await running.shutdown();
        }
      });
    });
  registerVaultReads(vault, shell);
  registerVaultKeys(vault, shell);
}

/** What a vault is started with, apart from where it listens. */
function world({ config, platform }: Session): Omit<VaultOptions, 'proxy' | 'admin'> {
  const stripe = platform.biller?.stripe ?? null;
  if (stripe === null || config.VAULT_URL !== undefined)
    throw new CommandError(
      EXIT.usage,
      'VAULT_URL: names a vault that others are to use, and this process is to be one. Unset it here, and set STRIPE_API_KEY',
    );
  const { VAULT_ALERT_WEBHOOK_URL: url, VAULT_ALERT_WEBHOOK_SECRET: secret } = config;
  return {
    databaseUrl: platform.databaseUrl,
    stripe,
    mode: config.mode,
    absenceQuietMs: config.ABSENCE_QUIET,
    adminToken: config.VAULT_ADMIN_TOKEN,
    runToken: config.VAULT_RUN_TOKEN,
    alerts: {
      webhook: url === undefined || secret === undefined ? null : { url, secret },
      slackUrl: config.VAULT_ALERT_SLACK_URL ?? null,
    },
    log: createLogger(config.LOG_LEVEL),
  };
}

function announce({ config, output }: Session, running: RunningVault): void {
  const { proxyUrl, adminUrl, proxyPort, adminPort, account } = running;
  output.line(
    `chargeonce vault for ${account} (${config.mode} mode): proxy at ${proxyUrl}, admin API at ${adminUrl} (pid ${process.pid})`,
  );
  output.result({
    proxyUrl,
    adminUrl,
    proxyPort,
    adminPort,
    account,
    mode: config.mode,
    pid: process.pid,
  });
}

async function start(options: VaultOptions): Promise<RunningVault> {
  // Fastify and what belongs to it: only this command waits for them.
  const { startVault, StripeAway, VaultRefusesToStart } = await import('../../vault.ts');
  try {
    return await startVault(options);
  } catch (error) {
    if (error instanceof VaultRefusesToStart) {
      throw new CommandError(EXIT.usage, error.message, error);
    }
    if (error instanceof StripeAway) {
      throw new CommandError(EXIT.unavailable, error.message, error);
    }
    const problem = listenProblem(error);
    if (problem === null || !(error instanceof Error)) throw error;
    const message =
      problem.kind === 'taken'
        ? `a port is taken (${error.message}): choose others with --proxy-port and --admin-port, or 0 for any`
        : `cannot be listened on (${error.message}): choose another host or port`;
    throw new CommandError(EXIT.unavailable, message, error);
  }
}
