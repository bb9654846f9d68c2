import type { Command } from '@commander-js/extra-typings';
import type { RunningServer, ServerOptions } from '../../server.ts';
import { createLogger } from '../../log.ts';
import { providerOf } from '../biller.ts';
import { CommandError, EXIT } from '../exit-codes.ts';
import { isLoopback, listenProblem, port } from '../listen-options.ts';
import { SERVER_PORT } from '../parts.ts';
import { temporalAccess } from '../platform.ts';
import { vaultAdminAccess } from '../vault-admin.ts';
import { untilInterrupted, withSession, type Shell } from '../shell.ts';
import { subscribeToSimulator, webhookSecretsOf } from '../simulator-webhooks.ts';

const EXPLANATION = `
/v1/…                   the operator API (docs/api.md); tokens: "chargeonce tokens create"
GET  /docs              the API to browse; also /openapi.json, /problems and /idempotency
POST /webhooks/stripe   signed by one of STRIPE_WEBHOOK_SECRETS; refused when none is set
GET  /healthz           the process answers
GET  /readyz            the database answers too; says whether Temporal does
GET  /metrics           for Prometheus, with a token

Plain HTTP: put TLS in front of it before it listens beyond this machine.`;

/** `server`: the operator API and the webhooks in this process, until it is interrupted. */
export function registerServer(program: Command, shell: Shell): void {
  program
    .command('server')
    .description(
      "run the HTTP server until Ctrl-C: the operator API, and Stripe's webhooks, which have the customers they name looked at",
    )
    .option(
      '--port <port>',
      `port; 0 takes any free one (default: SERVER_PORT or ${SERVER_PORT})`,
      port,
    )
    .option('--host <host>', 'address to listen on', '127.0.0.1')
    .option('--json', 'print the address as one JSON object')
    .addHelpText('after', EXPLANATION)
    .action(async (options) => {
      const json = options.json === true;
      // A Temporal of our own has no other workers: what is started here would wait for ever.
      const worker = temporalAccess(shell.env) === null;
      const needs = { temporal: true, stripe: true, waitsForVault: true, worker };
      await withSession(shell, { needs, json }, async ({ config, platform, output }) => {
        const { temporal, biller, simulatorUrl } = platform;
        if (temporal === null || biller === null)
          throw new Error('a server needs Temporal and Stripe');
        const webhookSecrets = webhookSecretsOf(config);
        const server = await start({
          databaseUrl: platform.databaseUrl,
          temporal,
          ...providerOf(biller),
          mode: config.mode,
          webhookSecrets,
          api: {
            zone: config.BILLING_ZONE,
            resolveApprovers: config.RESOLVE_APPROVERS,
            vaultAdmin: await vaultAdminAccess(config),
            temporalUiUrl: config.TEMPORAL_UI_URL ?? platform.temporalUiUrl,
          },
          host: options.host,
          port: options.port ?? config.SERVER_PORT ?? SERVER_PORT,
          log: createLogger(config.LOG_LEVEL),
        });
        try {
          const [secret] = webhookSecrets;
          if (simulatorUrl !== null && secret !== undefined)
            await subscribeToSimulator({ simulatorUrl, serverUrl: server.url, secret });
          if (secret === undefined)
            output.note('· webhooks are refused: STRIPE_WEBHOOK_SECRETS is not set');
          if (!isLoopback(options.host))
            output.note(
              '· listens beyond this machine, without TLS: put a proxy with TLS in front',
            );
          output.line(
            `chargeonce server at ${server.url} (pid ${process.pid}, ${config.mode} mode)`,
          );
          output.result({
            url: server.url,
            port: server.port,
            apiUrl: `${server.url}/v1`,
            docsUrl: `${server.url}/docs`,
            webhookUrl: `${server.url}/webhooks/stripe`,
            webhooks: secret !== undefined,
            pid: process.pid,
            mode: config.mode,
          });
          await untilInterrupted(shell);
        } finally {
          await server.shutdown();
        }
      });
    });
}

async function start(options: ServerOptions): Promise<RunningServer> {
  // Fastify and the Temporal client: only this command waits for them.
  const { startServer } = await import('../../server.ts');
  try {
    return await startServer(options);
  } catch (error) {
    const problem = listenProblem(error);
    if (problem === null) throw error;
    const where = `${options.host}:${options.port}`;
    const message =
      problem.kind === 'taken'
        ? `${where} is taken: choose another port with --port, or --port 0 for any`
        : `${where} cannot be listened on (${problem.code}): choose another --host or --port`;
    throw new CommandError(EXIT.unavailable, message, error);
  }
}
