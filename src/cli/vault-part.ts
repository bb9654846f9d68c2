import { randomBytes } from 'node:crypto';
import { link, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import { isVaultKey, type Config } from '../config.ts';
import { parseJson } from '../domain/json.ts';
import type { ProcessRequest } from '../embedded/stack.ts';
import type { StripeAccess, VaultSettings } from '../provider.ts';
import { Secret } from '../secret.ts';

const CLI = fileURLToPath(new URL('../cli.ts', import.meta.url));

/** Where the vault listens unless told otherwise. */
export const VAULT_PROXY_PORT = 8_430;
export const VAULT_ADMIN_PORT = 8_431;

/** Flags of Node for a vault: left alone, V8 lets garbage pile up. bin/chargeonce gives `chargeonce vault` the same. */
export const VAULT_NODE_FLAGS = ['--max-semi-space-size=8', '--max-old-space-size=256'] as const;

/** The tokens of a home's own vault. */
export interface VaultTokens {
  readonly runToken: Secret;
  readonly adminToken: Secret;
}

/** Whether a worker that is brought up here gets a vault of its own before it. */
export function wantsEmbeddedVault(config: Config): boolean {
  if (config.EMBEDDED_VAULT === 'off' || config.VAULT_URL !== undefined) return false;
  const key = config.STRIPE_API_KEY?.reveal();
  // A vault key has its vault already.
  return key === undefined || !isVaultKey(key);
}

/** The name of the vault's part, which others call. */
export const VAULT_PART = 'vault';

/**
 * The home's vault, the only part that is given the Stripe key, and how the parts that call it reach it. Asked again, or
 * by another command of the home, it is the same vault.
 */
export async function embeddedVault(from: {
  readonly config: Config;
  readonly stripe: StripeAccess;
  readonly databaseUrl: Secret;
}): Promise<{
  readonly part: ProcessRequest;
  readonly settings: VaultSettings;
  readonly adminToken: Secret;
}> {
  const tokens = await vaultTokens(from.config.CHARGEONCE_HOME);
  return {
    part: vaultPart({ ...from, tokens }),
    adminToken: tokens.adminToken,
    settings: {
      proxyUrl: 'http://127.0.0.1:{{its.port}}',
      adminUrl: 'http://127.0.0.1:{{its.secondPort}}',
      runToken: tokens.runToken,
      timeoutMs: from.config.STRIPE_TIMEOUT_MS,
    },
  };
}

/** The vault as a part: it alone has the Stripe key in its environment. */
function vaultPart(from: {
  readonly config: Config;
  readonly stripe: StripeAccess;
  readonly databaseUrl: Secret;
  readonly tokens: VaultTokens;
}): ProcessRequest {
  const { config } = from;
  const { VAULT_PROXY_PORT: proxyPort, VAULT_ADMIN_PORT: adminPort } = config;
  return {
    kind: 'process',
    name: VAULT_PART,
    label: 'the vault',
    command: process.execPath,
    args: [
      ...VAULT_NODE_FLAGS,
      CLI,
      'vault',
      '--proxy-port',
      '{{port}}',
      '--admin-port',
      '{{secondPort}}',
    ],
    env: vaultEnv(from),
    ...(proxyPort === undefined ? { preferredPort: VAULT_PROXY_PORT } : { port: proxyPort }),
    second: {
      label: "the vault's admin API",
      preferredPort: VAULT_ADMIN_PORT,
      ...(adminPort === undefined ? {} : { port: adminPort }),
    },
    url: 'http://127.0.0.1:{{port}}',
    ready: { kind: 'http', url: 'http://127.0.0.1:{{secondPort}}/readyz', timeoutMs: 60_000 },
    // A request under way waits for Stripe's answer, so that its reservation is settled by it.
    stopTimeoutMs: config.STRIPE_TIMEOUT_MS + 15_000,
  };
}

function vaultEnv({
  config,
  stripe,
  databaseUrl,
  tokens,
}: Parameters<typeof vaultPart>[0]): Record<string, string> {
  const env: Record<string, string> = {
    DATABASE_URL: databaseUrl.reveal(),
    CHARGEONCE_MODE: config.mode,
    CHARGEONCE_CACHE: config.CHARGEONCE_CACHE,
    LOG_LEVEL: config.LOG_LEVEL,
    STRIPE_TIMEOUT_MS: String(stripe.timeoutMs),
    ABSENCE_QUIET: `${config.ABSENCE_QUIET}ms`,
    STRIPE_API_KEY: stripe.apiKey.reveal(),
    VAULT_RUN_TOKEN: tokens.runToken.reveal(),
    VAULT_ADMIN_TOKEN: tokens.adminToken.reveal(),
  };
  const optional = {
    STRIPE_API_BASE: stripe.apiBase,
    STRIPE_ACCOUNT_ID: stripe.accountId,
    VAULT_ALERT_WEBHOOK_URL: config.VAULT_ALERT_WEBHOOK_URL?.reveal(),
    VAULT_ALERT_WEBHOOK_SECRET: config.VAULT_ALERT_WEBHOOK_SECRET?.reveal(),
    VAULT_ALERT_SLACK_URL: config.VAULT_ALERT_SLACK_URL?.reveal(),
  };
  for (const [name, value] of Object.entries(optional)) if (value !== undefined) env[name] = value;
  return env;
}

const tokensSchema = z.object({ runToken: z.string().min(1), adminToken: z.string().min(1) });

/** The tokens of a home, made when they are first asked for. By two at once: both read the same. */
export async function vaultTokens(home: string): Promise<VaultTokens> {
  const folder = path.resolve(home, 'vault');
  const file = path.join(folder, 'tokens.json');
  const known = await readTokens(file);
  if (known !== null) return known;
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const mine = path.join(folder, `.${process.pid}.${randomBytes(6).toString('hex')}`);
  const made = { runToken: newToken('vrt_'), adminToken: newToken('vat_') };
  try {
    await writeFile(mine, `${JSON.stringify(made)}\n`, { flag: 'wx', mode: 0o600 });
    // Whole or not at all, and never over those that another command is using already.
    await link(mine, file).catch((error: unknown) => {
      if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error;
    });
  } finally {
    await rm(mine, { force: true });
  }
  const stored = await readTokens(file);
  if (stored === null) throw new Error(`${file} was written and cannot be read`);
  return stored;
}

async function readTokens(file: string): Promise<VaultTokens | null> {
  const text = await readFile(file, 'utf8').catch((error: unknown) => {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return null;
    throw error;
  });
  if (text === null) return null;
  const parsed = tokensSchema.safeParse(parseJson(text));
  if (!parsed.success) throw new Error(`${file} is damaged: remove it, and new tokens are made`);
  const { runToken, adminToken } = parsed.data;
  return { runToken: new Secret(runToken), adminToken: new Secret(adminToken) };
}

function newToken(prefix: string): string {
  return `${prefix}${randomBytes(32).toString('hex')}`;
}
