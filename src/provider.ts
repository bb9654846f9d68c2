import { setTimeout as sleep } from 'node:timers/promises';
import type { Db } from './db/database.ts';
import { readRunTotals } from './db/vault-keys.ts';
import type { PaymentGateway } from './payments/gateway.ts';
import { stripeAccount } from './payments/stripe-account.ts';
import { createStripeGateway } from './payments/stripe-gateway.ts';
import { createVaultAccess, type VaultAccess } from './payments/vault-access.ts';
import { VaultRefused, VaultUnavailable } from './payments/vault-client.ts';
import type { Secret } from './secret.ts';
import { deriveRunKey } from './vault-key.ts';

/** A Stripe key of this process's own. */
export interface StripeAccess {
  readonly apiKey: Secret;
  readonly apiBase?: string | undefined;
  /** for keys that may not read their own account */
  readonly accountId?: string | undefined;
  readonly timeoutMs: number;
}

/** Where the vault is that has the Stripe key, and the token that vault and workers share. */
export interface VaultSettings {
  readonly proxyUrl: string;
  readonly adminUrl: string;
  readonly runToken: Secret;
  /** time-out of one HTTP request to Stripe, in milliseconds */
  readonly timeoutMs: number;
}

/** How a process reaches Stripe: with a key of its own, or through a vault. One of them, never both. */
export interface ProviderOptions {
  readonly stripe: StripeAccess | null;
  readonly vault?: VaultSettings | null | undefined;
  readonly mode: 'test' | 'live';
}

/** Stripe as the process reaches it. */
export interface Provider {
  /** with a vault that of no run, which knows the account and the API version only */
  readonly gateway: PaymentGateway;
  readonly vault: VaultAccess | null;
  readonly timeoutMs: number;
  /** The account that is billed: part of every key, so it is asked and never guessed. */
  account(): Promise<string>;
  close(): void;
}

/**
 * Opens the way to Stripe; sends nothing yet. Refuses a process that has a vault and a Stripe key: the vault's cap would
 * be no cap. The database is where the caps of a run are compared with its plan.
 */
export function openProvider(options: ProviderOptions, db: Db): Provider {
  const { stripe, mode } = options;
  const settings = options.vault ?? null;
  if (settings !== null && stripe !== null)
    throw new Error(
      'with a vault only the vault holds a Stripe key: this process was given one too',
    );
  if (settings !== null) return behindVault(reachVault(settings, { mode, db }), settings, mode);
  if (stripe === null) throw new Error('neither a Stripe key nor a vault was given');
  const gateway = createStripeGateway({
    apiKey: stripe.apiKey.reveal(),
    apiBase: stripe.apiBase,
    timeoutMs: stripe.timeoutMs,
  });
  return {
    gateway,
    vault: null,
    timeoutMs: stripe.timeoutMs,
    account: () => stripeAccount(gateway, stripe),
    close: () => gateway.close(),
  };
}

/** Access to Stripe through the vault, its caps compared with the plan in this database. Sends nothing yet. */
export function reachVault(
  settings: VaultSettings,
  { mode, db }: { readonly mode: 'test' | 'live'; readonly db: Db },
): VaultAccess {
  const runToken = settings.runToken.reveal();
  return createVaultAccess({
    proxyUrl: settings.proxyUrl,
    adminUrl: settings.adminUrl,
    runToken,
    timeoutMs: settings.timeoutMs,
    runKey: (run) => deriveRunKey(runToken, mode, run).key,
    expectedOf: async (run) => {
      const totals = (await readRunTotals(db, run)) ?? [];
      return new Map(totals.map(({ currency, expectedMinor }) => [currency, expectedMinor]));
    },
  });
}

/** A vault that starts beside whoever needs it answers within this, on a busy machine too. */
export const VAULT_PATIENCE_MS = 15_000;
const ASK_AGAIN_MS = 100;

/** The account behind a vault, whose key must be of our mode. A vault that does not answer is waited for that long. */
export async function vaultAccount(
  vault: VaultAccess,
  mode: 'test' | 'live',
  patienceMs: number,
): Promise<string> {
  const { account, liveMode } = await patiently(() => vault.account(), patienceMs);
  const its = liveMode ? 'live' : 'test';
  if (its === mode) return account;
  throw new VaultRefused(
    `the vault has a ${its} key, and CHARGEONCE_MODE is ${mode}: use the vault of that mode, or change CHARGEONCE_MODE`,
    { status: 409, code: 'vault_of_another_mode' },
  );
}

async function patiently<T>(ask: () => Promise<T>, patienceMs: number): Promise<T> {
  const deadline = performance.now() + patienceMs;
  for (;;) {
    try {
      return await ask();
    } catch (error) {
      if (!(error instanceof VaultUnavailable) || performance.now() > deadline) throw error;
    }
    await sleep(ASK_AGAIN_MS);
  }
}

function behindVault(
  vault: VaultAccess,
  { timeoutMs }: VaultSettings,
  mode: 'test' | 'live',
): Provider {
  return {
    gateway: vault.gatewayOutsideRuns(),
    vault,
    timeoutMs,
    account: () => vaultAccount(vault, mode, VAULT_PATIENCE_MS),
    close: () => vault.close(),
  };
}
