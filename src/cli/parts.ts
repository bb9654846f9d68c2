import path from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Config } from '../config.ts';
import { SHUTDOWN_GRACE_MS } from '../domain/timeouts.ts';
import type { ProcessRequest } from '../embedded/stack.ts';
import type { VaultSettings } from '../provider.ts';
import type { Secret } from '../secret.ts';
import type { Platform } from './platform.ts';
import { webhookSecretsOf } from './simulator-webhooks.ts';

const CLI = fileURLToPath(new URL('../cli.ts', import.meta.url));

/** The line a worker prints when it polls; its part is ready then. */
export const WORKER_READY_LINE = 'chargeonce worker is ready';

/** The Stripe simulator as a part of the embedded stack, its state below the home. */
export function simulatorPart(config: Config, extraArgs: readonly string[]): ProcessRequest {
  const stateDir = path.resolve(config.CHARGEONCE_HOME, 'simulator');
  return {
    kind: 'process',
    name: 'simulator',
    label: 'the Stripe simulator',
    command: process.execPath,
    args: [CLI, 'simulator', '--port', '{{port}}', '--state-dir', stateDir, ...extraArgs],
    env: {},
    ...(config.SIMULATOR_PORT === undefined
      ? { preferredPort: 12_111 }
      : { port: config.SIMULATOR_PORT }),
    url: 'http://127.0.0.1:{{port}}',
    ready: { kind: 'http', url: 'http://127.0.0.1:{{port}}/_sim/health' },
  };
}

/** Heap of a worker without cached workflows, in MB, and what one cached workflow may take of it. */
const WORKER_HEAP_MB = 112;
const HEAP_PER_WORKFLOW_MB = 2;

/**
 * Flags of Node for a worker. Left alone, V8 lets garbage pile up: the same run takes twice the memory
 * and no less CPU. bin/chargeonce gives `chargeonce worker` the same.
 */
function workerNodeFlags(cachedWorkflows: number): string[] {
  const heapMb = WORKER_HEAP_MB + HEAP_PER_WORKFLOW_MB * cachedWorkflows;
  return ['--max-semi-space-size=8', `--max-old-space-size=${heapMb}`];
}

/** What a worker and a server are started with. */
export interface PartWorld {
  readonly platform: Platform;
  /** through which they reach Stripe; then they are given no Stripe key */
  readonly vault: VaultSettings | null;
  /** of the home's own vault, for the server alone: operators order keys through it */
  readonly adminToken: Secret | null;
  /** of the command, from which the parts' own variables are passed on */
  readonly env: NodeJS.ProcessEnv;
  readonly extra: Readonly<Record<string, string>>;
}

/** A worker as a part: configured by variables, as anybody would start one. */
export function workerPart(from: PartWorld): ProcessRequest {
  const { platform } = from;
  return {
    kind: 'process',
    name: 'worker',
    label: 'the worker',
    command: process.execPath,
    args: [...workerNodeFlags(platform.config.MAX_CACHED_WORKFLOWS), CLI, 'worker'],
    env: { ...workerEnv(from), ...from.extra },
    ready: { kind: 'stdout-line', pattern: WORKER_READY_LINE, timeoutMs: 60_000 },
    // Above the grace in which a stopping worker finishes its charges, and what follows the last of them.
    stopTimeoutMs: SHUTDOWN_GRACE_MS + 15_000,
  };
}

/** Where the server listens unless told otherwise. */
export const SERVER_PORT = 8_420;

/** The server as a part: takes the webhooks of Stripe, or of the simulator. */
export function serverPart(from: PartWorld): ProcessRequest {
  const { config } = from.platform;
  const secrets = webhookSecretsOf(config).map((secret) => secret.reveal());
  const uiUrl = from.platform.temporalUiUrl;
  return {
    kind: 'process',
    name: 'server',
    label: 'the server',
    command: process.execPath,
    args: [CLI, 'server', '--port', '{{port}}'],
    env: {
      ...workerEnv(from),
      ...from.extra,
      ...(secrets.length === 0 ? {} : { STRIPE_WEBHOOK_SECRETS: secrets.join(',') }),
      ...(uiUrl === null ? {} : { TEMPORAL_UI_URL: uiUrl }),
      ...(from.adminToken === null ? {} : { VAULT_ADMIN_TOKEN: from.adminToken.reveal() }),
    },
    ...(config.SERVER_PORT === undefined
      ? { preferredPort: SERVER_PORT }
      : { port: config.SERVER_PORT }),
    url: 'http://127.0.0.1:{{port}}',
    ready: { kind: 'http', url: 'http://127.0.0.1:{{port}}/readyz', timeoutMs: 60_000 },
  };
}

/** Variables of ours that a worker reads besides the addresses of its parts. */
const PASSED_ON = [
  'CHARGES_PER_SECOND',
  'RECONCILE_PAUSES',
  'ABSENCE_QUIET',
  'BILLING_ZONE',
  'MAX_CACHED_WORKFLOWS',
  'LOG_LEVEL',
  'METRICS_PORT',
  'CHARGEONCE_CACHE',
  'STRIPE_TIMEOUT_MS',
] as const;

function workerEnv({ platform, vault, env }: PartWorld): Record<string, string> {
  const { config } = platform;
  const passed: Record<string, string> = {
    DATABASE_URL: platform.databaseUrl.reveal(),
    CHARGEONCE_MODE: config.mode,
    ...stripeEnv(platform, vault),
  };
  for (const name of PASSED_ON) {
    const value = env[name];
    if (value !== undefined && value !== '') passed[name] = value;
  }
  const embedded = platform.lease?.endpoints.temporalAddress;
  if (embedded !== undefined) {
    // No profile on disk may add its own TLS or namespace to the embedded server's address.
    return {
      ...passed,
      TEMPORAL_ADDRESS: embedded,
      TEMPORAL_NAMESPACE: 'default',
      TEMPORAL_CONFIG_FILE: '/dev/null',
    };
  }
  // A configured Temporal is found as we found it.
  for (const [name, value] of Object.entries(env)) {
    if (name.startsWith('TEMPORAL_') && value !== undefined) passed[name] = value;
  }
  return passed;
}

/** The way to Stripe: the vault, or the key itself, never both. */
function stripeEnv(platform: Platform, vault: VaultSettings | null): Record<string, string> {
  if (vault !== null) {
    return {
      VAULT_URL: vault.proxyUrl,
      VAULT_ADMIN_URL: vault.adminUrl,
      VAULT_RUN_TOKEN: vault.runToken.reveal(),
    };
  }
  const stripe = platform.biller?.stripe;
  if (stripe == null) return {};
  return {
    STRIPE_API_KEY: stripe.apiKey.reveal(),
    ...(stripe.apiBase === undefined ? {} : { STRIPE_API_BASE: stripe.apiBase }),
    ...(stripe.accountId === undefined ? {} : { STRIPE_ACCOUNT_ID: stripe.accountId }),
  };
}
