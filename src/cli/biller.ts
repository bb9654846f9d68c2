import type { Config } from '../config.ts';
import type { Db } from '../db/database.ts';
import type { RunRef } from '../domain/ids.ts';
import type { StackLease } from '../embedded/stack.ts';
import type { VaultAccess } from '../payments/vault-access.ts';
import { VaultRefused, VaultUnavailable } from '../payments/vault-client.ts';
import { reachVault, type StripeAccess, type VaultSettings } from '../provider.ts';
import { Secret } from '../secret.ts';
import { CommandError, EXIT } from './exit-codes.ts';

/** Who bills, as a command reaches it: a Stripe key of its own, a configured vault, or with a vault key both. */
export interface Biller {
  readonly mode: 'test' | 'live';
  readonly stripe: StripeAccess | null;
  readonly vault: { readonly settings: VaultSettings; readonly access: VaultAccess } | null;
}

/** The key of the built-in simulator: it accepts any, and this one says what it is. */
const SIMULATOR_KEY = 'sk_test_chargeonce_simulator';

/** Reads the configuration; sends nothing. Without a key and a vault the simulator of the lease stands in. */
export function billerOf(config: Config, lease: StackLease | null, db: Db): Biller {
  const { mode } = config;
  const settings = vaultSettingsOf(config);
  const vault = settings === null ? null : { settings, access: reachVault(settings, { mode, db }) };
  return { mode, vault, stripe: stripeOf(config, lease, settings !== null) };
}

function vaultSettingsOf(config: Config): VaultSettings | null {
  const { VAULT_URL: proxyUrl, VAULT_ADMIN_URL: adminUrl, VAULT_RUN_TOKEN: runToken } = config;
  if (proxyUrl === undefined || adminUrl === undefined || runToken === undefined) return null;
  return { proxyUrl, adminUrl, runToken, timeoutMs: config.STRIPE_TIMEOUT_MS };
}

function stripeOf(
  config: Config,
  lease: StackLease | null,
  hasVault: boolean,
): StripeAccess | null {
  const timeoutMs = config.STRIPE_TIMEOUT_MS;
  if (config.STRIPE_API_KEY !== undefined) {
    return {
      apiKey: config.STRIPE_API_KEY,
      apiBase: config.STRIPE_API_BASE,
      accountId: config.STRIPE_ACCOUNT_ID,
      timeoutMs,
    };
  }
  if (hasVault) return null;
  const apiBase = lease?.endpoints.simulatorUrl;
  if (apiBase === undefined) throw new Error('the embedded stack gave no simulator');
  return { apiKey: new Secret(SIMULATOR_KEY), apiBase, timeoutMs };
}

/** What a worker or server of this process is given: the vault where there is one, and then no key. */
export function providerOf(biller: Biller): {
  readonly stripe: StripeAccess | null;
  readonly vault: VaultSettings | null;
} {
  return biller.vault === null
    ? { stripe: biller.stripe, vault: null }
    : { stripe: null, vault: biller.vault.settings };
}

/** With what Stripe is read for one run: with a vault the run's own key, which is opened first. */
export async function stripeOfRun(biller: Biller, run: RunRef): Promise<StripeAccess> {
  const { vault, stripe } = biller;
  if (vault === null) {
    if (stripe === null) throw new Error('this command did not ask for Stripe');
    return stripe;
  }
  const { apiKey, apiBase } = await vaultSays(() => vault.access.credentialsOf(run));
  return { apiKey: new Secret(apiKey), apiBase, timeoutMs: vault.settings.timeoutMs };
}

/** With what Stripe is read beyond one run. A vault's runs do not reach that far: it takes a key of one's own. */
export function stripeBeyondRuns(biller: Biller): StripeAccess {
  if (biller.stripe !== null) return biller.stripe;
  throw new CommandError(
    EXIT.usage,
    'this looks through the whole account, and the key of a run does not reach that far. Make a vault key of your own ' +
      '("chargeonce vault keys create"), and set STRIPE_API_KEY=vk_… with STRIPE_API_BASE to the address in VAULT_URL',
  );
}

/** Asks the vault, and says what it says in the words of a command. */
export async function vaultSays<T>(ask: () => Promise<T>): Promise<T> {
  try {
    return await ask();
  } catch (error) {
    if (error instanceof VaultUnavailable) {
      throw new CommandError(
        EXIT.unavailable,
        `${error.message}. Check VAULT_URL and VAULT_ADMIN_URL, and that "chargeonce vault" is up`,
        error,
      );
    }
    if (error instanceof VaultRefused) throw new CommandError(EXIT.usage, error.message, error);
    throw error;
  }
}
