import { readFileSync } from 'node:fs';
import { inspect } from 'node:util';
import { describe, expect, it } from 'vitest';
import { ConfigError, configSchema, loadConfig, parseDurations } from '../../src/config.ts';
import { webhookSecretsOf } from '../../src/cli/simulator-webhooks.ts';
import { redact } from '../../src/log.ts';

/** The problems of a configuration; a good one is a failed test. */
function problemsOf(env: Record<string, string>): readonly string[] {
  try {
    loadConfig(env);
  } catch (error) {
    if (error instanceof ConfigError) return error.problems;
    throw error;
  }
  throw new Error('the configuration was expected to be refused');
}

describe('loadConfig', () => {
  it('needs nothing: the embedded parts and the simulator are the default', () => {
    const config = loadConfig({});
    expect(config).toMatchObject({
      mode: 'test',
      CHARGEONCE_HOME: '.chargeonce',
      CHARGES_PER_SECOND: 24,
      STRIPE_TIMEOUT_MS: 30_000,
      RECONCILE_PAUSES: [60_000, 300_000, 1_800_000, 7_200_000, 21_600_000],
      BILLING_ZONE: 'UTC',
      MAX_CACHED_WORKFLOWS: 200,
      LOG_LEVEL: 'info',
    });
    expect(config.DATABASE_URL).toBeUndefined();
    expect(config.STRIPE_API_KEY).toBeUndefined();
  });

  it('takes every variable at its word', () => {
    const config = loadConfig({
      DATABASE_URL: 'postgresql://u:p@h/db',
      STRIPE_API_KEY: 'rk_test_abc',
      STRIPE_API_BASE: 'http://127.0.0.1:9',
      STRIPE_ACCOUNT_ID: 'acct_1',
      STRIPE_TIMEOUT_MS: '5000',
      CHARGEONCE_MODE: 'test',
      CHARGEONCE_HOME: 'home',
      CHARGEONCE_CACHE: 'cache',
      CHARGES_PER_SECOND: '0.5',
      RECONCILE_PAUSES: '100ms, 2s,1.5m,1h',
      BILLING_ZONE: 'Europe/Berlin',
      POSTGRES_PORT: '1',
      TEMPORAL_PORT: '2',
      TEMPORAL_UI_PORT: '3',
      SIMULATOR_PORT: '4',
      METRICS_PORT: '65535',
      TEMPORAL_CLI_PATH: '/bin/temporal',
      TEMPORAL_TEST_SERVER_PATH: '/bin/test-server',
      MAX_CACHED_WORKFLOWS: '50',
      LOG_LEVEL: 'warn',
    });
    expect(config.DATABASE_URL?.reveal()).toBe('postgresql://u:p@h/db');
    expect(config.STRIPE_API_KEY?.reveal()).toBe('rk_test_abc');
    expect(config.RECONCILE_PAUSES).toEqual([100, 2_000, 90_000, 3_600_000]);
    expect(config.METRICS_PORT).toBe(65_535);
  });

  it('treats an empty or blank variable as not set', () => {
    expect(
      loadConfig({ STRIPE_API_KEY: '', DATABASE_URL: ' ', CHARGES_PER_SECOND: ' ' })
        .CHARGES_PER_SECOND,
    ).toBe(24);
  });

  it.each<[string, string, string]>([
    ['DATABASE_URL', 'mysql://h/db', 'postgres://'],
    ['STRIPE_API_BASE', 'not a url', 'http(s) URL'],
    ['STRIPE_API_BASE', 'ftp://host', 'http(s) URL'],
    ['STRIPE_ACCOUNT_ID', 'cus_1', 'acct_'],
    ['STRIPE_TIMEOUT_MS', '999', 'Too small'],
    ['STRIPE_TIMEOUT_MS', '36000', 'Too big'],
    ['STRIPE_TIMEOUT_MS', 'soon', 'number'],
    ['CHARGEONCE_MODE', 'production', 'test'],
    ['CHARGES_PER_SECOND', '-1', 'Too small'],
    ['RECONCILE_PAUSES', '1x', 'durations'],
    ['RECONCILE_PAUSES', '1m,,2m', 'durations'],
    ['BILLING_ZONE', 'Mars/Olympus', 'IANA'],
    ['POSTGRES_PORT', '0', 'Too small'],
    ['TEMPORAL_PORT', '65536', 'Too big'],
    ['TEMPORAL_UI_PORT', '80.5', 'int'],
    ['SIMULATOR_PORT', 'x', 'number'],
    ['SERVER_PORT', '0', 'Too small'],
    ['STRIPE_WEBHOOK_SECRETS', 'sk_test_1', 'whsec_'],
    ['STRIPE_WEBHOOK_SECRETS', 'whsec_12345678,', 'whsec_'],
    ['STRIPE_WEBHOOK_SECRETS', Array(6).fill('whsec_12345678').join(), 'at most 5'],
    ['METRICS_PORT', '-5', 'Too small'],
    ['MAX_CACHED_WORKFLOWS', '49', 'Too small'],
    ['LOG_LEVEL', 'loud', 'debug'],
    ['VAULT_RUN_TOKEN', `vrt_${'a'.repeat(31)}`, 'openssl rand -hex 32'],
    ['VAULT_RUN_TOKEN', `vat_${'a'.repeat(64)}`, 'vrt_'],
    ['VAULT_ADMIN_TOKEN', 'hunter2', 'vat_'],
    ['VAULT_PROXY_PORT', '0', 'Too small'],
    ['VAULT_ADMIN_PORT', '65536', 'Too big'],
    ['EMBEDDED_VAULT', 'no', 'off'],
  ])('refuses %s=%s, by name', (name, value, said) => {
    const problems = problemsOf({ STRIPE_API_KEY: 'sk_test_1', [name]: value });
    expect(problems).toHaveLength(1);
    expect(problems[0]).toMatch(new RegExp(`^${name}: `));
    expect(problems[0]).toContain(said);
  });

  it('takes several webhook secrets, for a rotation, and shows none', () => {
    const config = loadConfig({ STRIPE_WEBHOOK_SECRETS: 'whsec_newhushhush, whsec_oldhushhush' });
    expect(config.STRIPE_WEBHOOK_SECRETS?.map((secret) => secret.reveal())).toEqual([
      'whsec_newhushhush',
      'whsec_oldhushhush',
    ]);
    expect(inspect(config, { depth: 9 }) + JSON.stringify(config)).not.toContain('hushhush');
    expect(problemsOf({ STRIPE_WEBHOOK_SECRETS: 'hushhush' }).join()).not.toContain('hushhush');
  });

  it('says what to do with a password that breaks the URL', () => {
    expect(() => loadConfig({ DATABASE_URL: 'postgres://u:a#b@db.example/x' })).toThrow(
      'percent-encode special characters',
    );
  });

  it('reports every wrong variable at once', () => {
    const problems = problemsOf({
      DATABASE_URL: 'x',
      LOG_LEVEL: 'x',
      BILLING_ZONE: 'x',
      STRIPE_API_KEY: 'x',
    });
    expect(problems.map((problem) => problem.slice(0, problem.indexOf(':'))).sort()).toEqual([
      'BILLING_ZONE',
      'DATABASE_URL',
      'LOG_LEVEL',
      'STRIPE_API_KEY',
    ]);
  });

  it.each([
    ['pk_test_1', 'publishable'],
    ['whsec_1', 'webhook secret'],
    ['vk_1', 'vault key'],
    ['vk_test_0123456789abcdef_short', 'vault key'],
    ['sk_test_', 'must be'],
    ['sk_live', 'must be'],
    [' sk_test_1', 'must be'],
    ['sk_test_1\n', 'must be'],
  ])('refuses %j as an API key and says why', (key, said) => {
    expect(problemsOf({ STRIPE_API_KEY: key })[0]).toContain(said);
  });

  it('never shows a key or a database password', () => {
    const config = loadConfig({
      STRIPE_API_KEY: 'sk_test_hushhush',
      DATABASE_URL: 'postgres://u:hushhush@h/d',
    });
    for (const shown of [
      JSON.stringify(config),
      inspect(config, { depth: 9 }),
      String(config.STRIPE_API_KEY),
    ]) {
      expect(shown).not.toContain('hushhush');
    }
    expect(
      problemsOf({
        STRIPE_API_KEY: 'nonsense_hushhush',
        DATABASE_URL: 'mysql://u:hushhush@h',
      }).join(),
    ).not.toContain('hushhush');
  });
});

describe('live mode', () => {
  const live = { STRIPE_API_KEY: 'sk_live_1', CHARGEONCE_MODE: 'live' };

  it('bills with a live key when it is asked for by name', () => {
    expect(loadConfig(live).mode).toBe('live');
    expect(loadConfig({ ...live, STRIPE_API_KEY: 'rk_live_1' }).mode).toBe('live');
  });

  it.each<[string, Record<string, string>, string]>([
    [
      'a live key without CHARGEONCE_MODE=live',
      { STRIPE_API_KEY: 'sk_live_1' },
      'STRIPE_API_KEY: this is a live key',
    ],
    [
      'a restricted live key without CHARGEONCE_MODE=live',
      { STRIPE_API_KEY: 'rk_live_1' },
      'STRIPE_API_KEY: this is a live key',
    ],
    [
      'a live key sent to another host',
      { ...live, STRIPE_API_BASE: 'http://127.0.0.1:1' },
      'STRIPE_API_BASE: refused with a live key',
    ],
    [
      'live mode with a test key',
      { ...live, STRIPE_API_KEY: 'sk_test_1' },
      'CHARGEONCE_MODE: live mode with a test key',
    ],
    [
      'live mode with the simulator',
      { CHARGEONCE_MODE: 'live' },
      'CHARGEONCE_MODE: live mode needs a live STRIPE_API_KEY',
    ],
    [
      'another host without a key',
      { STRIPE_API_BASE: 'http://127.0.0.1:1' },
      'STRIPE_API_BASE: set without STRIPE_API_KEY',
    ],
  ])('refuses %s', (_what, env, said) => {
    expect(problemsOf(env).some((problem) => problem.startsWith(said))).toBe(true);
  });

  it('reports contradictions together', () => {
    expect(
      problemsOf({ STRIPE_API_KEY: 'sk_live_1', STRIPE_API_BASE: 'http://127.0.0.1:1' }),
    ).toHaveLength(2);
  });
});

describe('with a vault', () => {
  const RUN_TOKEN = `vrt_${'a'.repeat(64)}`;
  const vault = {
    VAULT_URL: 'http://127.0.0.1:1',
    VAULT_ADMIN_URL: 'http://127.0.0.1:2',
    VAULT_RUN_TOKEN: RUN_TOKEN,
  };
  const key = (mode: string) => `vk_${mode}_${'0'.repeat(16)}_${'a'.repeat(64)}`;
  const base = { STRIPE_API_BASE: 'http://127.0.0.1:1' };

  it('bills without a Stripe key, in test and in live mode', () => {
    expect(loadConfig(vault).VAULT_RUN_TOKEN?.reveal()).toBe(RUN_TOKEN);
    expect(loadConfig({ ...vault, CHARGEONCE_MODE: 'live' }).mode).toBe('live');
  });

  it.each(['sk_test_1', 'rk_test_1', 'sk_live_1', 'rk_live_1'])(
    'refuses the Stripe key %s beside it: only the vault holds one',
    (secret) => {
      const CHARGEONCE_MODE = secret.includes('live') ? 'live' : 'test';
      const problems = problemsOf({ ...vault, STRIPE_API_KEY: secret, CHARGEONCE_MODE });
      expect(problems).toHaveLength(1);
      expect(problems[0]).toMatch(/^STRIPE_API_KEY: .*Only the vault holds the Stripe key/);
    },
  );

  it('takes no event that the simulator signs: its secret is known to everybody', () => {
    expect(webhookSecretsOf(loadConfig({}))).toHaveLength(1);
    expect(webhookSecretsOf(loadConfig(vault))).toEqual([]);
  });

  it('lets the vault and an operator have what is theirs', () => {
    const VAULT_ADMIN_TOKEN = `vat_${'b'.repeat(64)}`;
    const { VAULT_RUN_TOKEN, VAULT_ADMIN_URL } = vault;
    expect(
      loadConfig({ STRIPE_API_KEY: 'sk_test_1', VAULT_RUN_TOKEN, VAULT_ADMIN_TOKEN }),
    ).toBeTruthy();
    expect(loadConfig({ VAULT_ADMIN_URL, VAULT_ADMIN_TOKEN })).toBeTruthy();
  });

  it.each<[string, Record<string, string>, string]>([
    [
      'the proxy alone',
      { VAULT_URL: vault.VAULT_URL },
      'VAULT_URL: needs VAULT_ADMIN_URL and VAULT_RUN_TOKEN',
    ],
    ['no token', { ...vault, VAULT_RUN_TOKEN: '' }, 'VAULT_URL: needs VAULT_RUN_TOKEN'],
    [
      'all but the proxy',
      { ...vault, VAULT_URL: '' },
      'VAULT_RUN_TOKEN: set with VAULT_ADMIN_URL and without VAULT_URL',
    ],
    [
      'alerts that nobody signs',
      { VAULT_ALERT_WEBHOOK_URL: 'https://a.example' },
      'VAULT_ALERT_WEBHOOK_URL: needs',
    ],
    [
      'a vault key without its vault',
      { STRIPE_API_KEY: key('test') },
      'STRIPE_API_KEY: a vault key (vk_…) is good at its vault only',
    ],
    [
      'a live vault key in test mode',
      { ...base, STRIPE_API_KEY: key('live') },
      'STRIPE_API_KEY: this is a live key',
    ],
    [
      'a test vault key in live mode',
      { ...base, STRIPE_API_KEY: key('test'), CHARGEONCE_MODE: 'live' },
      'CHARGEONCE_MODE: live mode with a test key',
    ],
  ])('refuses %s', (_what, env, said) => {
    const problems = problemsOf(env);
    expect(problems).toHaveLength(1);
    expect(problems[0]?.startsWith(said)).toBe(true);
  });

  it('takes a vault key of either mode as the key of any Stripe client', () => {
    expect(loadConfig({ ...base, STRIPE_API_KEY: key('test') }).mode).toBe('test');
    const live = { ...base, STRIPE_API_KEY: key('live'), CHARGEONCE_MODE: 'live' };
    expect(loadConfig(live).mode).toBe('live');
  });

  it('shows none of its secrets, neither in the configuration nor in a log', () => {
    const secrets = {
      VAULT_RUN_TOKEN: RUN_TOKEN,
      VAULT_ADMIN_TOKEN: `vat_${'b'.repeat(64)}`,
      VAULT_ALERT_WEBHOOK_URL: 'https://u:hushhush@a.example/',
      VAULT_ALERT_WEBHOOK_SECRET: `whsec_${'c'.repeat(64)}`,
      VAULT_ALERT_SLACK_URL: 'https://hooks.slack.com/services/T0/B0/hushhush',
      STRIPE_API_KEY: key('test'),
      ...base,
    };
    const config = loadConfig(secrets);
    const shown = inspect(config, { depth: 9 }) + JSON.stringify(config);
    const logged = redact(Object.values({ ...secrets, VAULT_ALERT_WEBHOOK_URL: '' }).join(' | '));
    for (const tail of ['aaaaaaaa', 'bbbbbbbb', 'cccccccc', 'hushhush']) {
      expect(shown).not.toContain(tail);
      expect(logged).not.toContain(tail);
    }
  });

  it('lets the public part of a vault key into a log, and no more of it', () => {
    const id = 'vk_live_0123456789abcdef';
    expect(redact(`key ${id}… is over its cap`)).toBe(`key ${id}… is over its cap`);
    expect(redact(`key ${id}_${'a'.repeat(64)}.`)).toBe('key [redacted].');
    expect(redact(`key ${id}0_x`)).toBe('key [redacted]');
  });
});

describe('parseDurations', () => {
  it.each(['', 's', '1', '-1s', '1e3s', '0s', '73h', '1m;2m', 'NaNs'])('refuses %j', (text) => {
    expect(parseDurations(text)).toBeNull();
  });
});

describe('.env.example', () => {
  it('names every variable of the schema, and no other', () => {
    const text = readFileSync(new URL('../../.env.example', import.meta.url), 'utf8');
    const named = [...text.matchAll(/^#?\s?([A-Z][A-Z0-9_]*)=/gm)].map((match) => match[1] ?? '');
    const ours = named.filter((name) => !(name in TEMPORALS_OWN));
    expect([...new Set(ours)].sort()).toEqual(Object.keys(configSchema.shape).sort());
  });
});

/** Read by @temporalio/envconfig, not by us; the example may show them. */
const TEMPORALS_OWN: Readonly<Record<string, true>> = {
  TEMPORAL_ADDRESS: true,
  TEMPORAL_NAMESPACE: true,
  TEMPORAL_API_KEY: true,
  TEMPORAL_PROFILE: true,
  TEMPORAL_CONFIG_FILE: true,
  TEMPORAL_TLS: true,
  TEMPORAL_TLS_CLIENT_CERT_PATH: true,
  TEMPORAL_TLS_CLIENT_KEY_PATH: true,
  TEMPORAL_TLS_SERVER_CA_CERT_PATH: true,
};
