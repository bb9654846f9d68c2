import { setTimeout as sleep } from 'node:timers/promises';
import type { Db } from '../db/database.ts';
import {
  EnvironmentMismatch,
  requireAccount,
  requireEnvironment,
  type TemporalPlace,
} from '../db/environment.ts';
import { LookupFailed } from '../payments/gateway.ts';
import { stripeAccount } from '../payments/stripe-account.ts';
import { createStripeGateway } from '../payments/stripe-gateway.ts';
import { VAULT_PATIENCE_MS, vaultAccount, type StripeAccess } from '../provider.ts';
import { vaultSays, type Biller } from './biller.ts';
import { CommandError, EXIT } from './exit-codes.ts';

/** One reset or 429 must not fail a command that only asks who it is; an outage must not hold it for long. */
const TRIES = 3;
const PAUSE_MS = 500;

/**
 * Refuses, before anything is started, a key that Stripe does not take, and a database that belongs to another account.
 * Binds nothing: a new database is bound by its first worker.
 */
export async function requireOwnAccount(
  db: Db,
  biller: Biller,
  waitsForVault: boolean,
): Promise<void> {
  const account = await accountOf(biller, waitsForVault);
  await explained(() => requireAccount(db, { account, liveMode: biller.mode === 'live' }));
}

/**
 * The same for a command that bills, and for the place too: a copied database, or another Temporal, is
 * refused before anything is started. Binds nothing.
 */
export async function requireOwnEnvironment(
  db: Db,
  biller: Biller,
  temporal: TemporalPlace | null,
): Promise<void> {
  const account = await accountOf(biller);
  const liveMode = biller.mode === 'live';
  await explained(() => requireEnvironment(db, { account, liveMode, temporal }));
}

/** Runs a check, and says a mismatch in the words of a command. */
export async function explained(check: () => Promise<void>): Promise<void> {
  try {
    await check();
  } catch (error) {
    if (error instanceof EnvironmentMismatch) {
      throw new CommandError(EXIT.usage, error.message, error);
    }
    throw error;
  }
}

/** The account that is billed, as the vault or our own key has it, and in our words when it cannot be had. */
export async function accountOf(
  { stripe, vault, mode }: Biller,
  waitsForVault = false,
): Promise<string> {
  if (vault !== null) {
    const patienceMs = waitsForVault ? VAULT_PATIENCE_MS : 0;
    return await vaultSays(() => vaultAccount(vault.access, mode, patienceMs));
  }
  if (stripe === null) throw new Error('this command did not ask for Stripe');
  return await accountOfKey(stripe);
}

async function accountOfKey(stripe: StripeAccess): Promise<string> {
  const gateway = createStripeGateway({
    apiKey: stripe.apiKey.reveal(),
    apiBase: stripe.apiBase,
    timeoutMs: stripe.timeoutMs,
  });
  try {
    for (let left = TRIES - 1; ; left -= 1) {
      try {
        return await stripeAccount(gateway, stripe);
      } catch (error) {
        const refusal = explain(error, stripe);
        if (left === 0 || refusal.exitCode === EXIT.usage) throw refusal;
        await sleep(PAUSE_MS);
      }
    }
  } finally {
    gateway.close();
  }
}

function explain(error: unknown, stripe: StripeAccess): CommandError {
  const status = error instanceof LookupFailed ? error.status : null;
  if (status === 401) {
    return new CommandError(
      EXIT.usage,
      'Stripe does not take this STRIPE_API_KEY (401): it is wrong or was rolled. Set it anew',
      error,
    );
  }
  if (status === 403) {
    return new CommandError(
      EXIT.usage,
      'this STRIPE_API_KEY may not read its own account (403): set STRIPE_ACCOUNT_ID=acct_…',
      error,
    );
  }
  const said = error instanceof Error ? error.message : String(error);
  const where =
    stripe.apiBase === undefined
      ? 'Stripe cannot be reached'
      : `Stripe at ${new URL(stripe.apiBase).host} cannot be reached`;
  const advice =
    stripe.apiBase === undefined ? 'Check the network' : 'Check STRIPE_API_BASE and that it is up';
  return new CommandError(EXIT.unavailable, `${where}: ${said} ${advice}`, error);
}
