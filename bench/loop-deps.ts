import type { ActivityDeps } from '../src/activities/deps.ts';
import type { Platform } from '../src/cli/platform.ts';
import { openDatabase } from '../src/db/database.ts';
import { createStripeGateway } from '../src/payments/stripe-gateway.ts';
import { stripeAccount } from '../src/payments/stripe-account.ts';

/** The activities' world in this process, on the platform's parts. */
export async function chargesOf(
  platform: Platform,
): Promise<{ deps: ActivityDeps; close: () => Promise<void> }> {
  const stripe = platform.biller?.stripe;
  if (stripe == null) throw new Error('the bench needs a provider');
  const database = openDatabase({
    url: platform.databaseUrl.reveal(),
    applicationName: 'chargeonce bench',
    onError: () => {},
  });
  const gateway = createStripeGateway({
    apiKey: stripe.apiKey.reveal(),
    apiBase: stripe.apiBase,
    timeoutMs: stripe.timeoutMs,
  });
  const deps: ActivityDeps = {
    db: database.db,
    gateway,
    vault: null,
    account: await stripeAccount(gateway, stripe),
    mode: 'test',
    worker: 'bench loop',
    pace: async () => {},
    reconcilePausesMs: [],
    absenceQuietMs: 3_600_000,
    storedResponses: { purge: async () => 0 },
    crashPoint: async () => {},
    requireEnvironment: async () => {},
  };
  const close = async (): Promise<void> => {
    gateway.close();
    await database.close();
  };
  return { deps, close };
}
