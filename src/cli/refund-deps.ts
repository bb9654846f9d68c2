import { hostname } from 'node:os';
import { requireEnvironment } from '../db/environment.ts';
import { createStripeGateway } from '../payments/stripe-gateway.ts';
import type { RefundDeps } from '../refunds/deps.ts';
import { accountOf, explained } from './account-check.ts';
import { stripeBeyondRuns } from './biller.ts';
import type { Session } from './shell.ts';

/**
 * Runs work with what refunds need, and closes the sockets afterwards. `writes` refuses a copied
 * database, which would plan and send refunds beside the one it was copied from; looking is allowed.
 */
export async function withRefunds<T>(
  { config, platform }: Session,
  purpose: 'reads' | 'writes',
  work: (deps: RefundDeps) => Promise<T>,
): Promise<T> {
  const { biller, database } = platform;
  if (biller === null) throw new Error('this command did not ask for Stripe');
  const stripe = stripeBeyondRuns(biller);
  const account = await accountOf(biller);
  const { db } = database;
  const liveMode = config.mode === 'live';
  if (purpose === 'writes') await explained(() => requireEnvironment(db, { account, liveMode }));
  const gateway = createStripeGateway({
    apiKey: stripe.apiKey.reveal(),
    apiBase: stripe.apiBase,
    timeoutMs: stripe.timeoutMs,
  });
  try {
    return await work({
      db,
      refunds: gateway.refunds,
      account,
      mode: config.mode,
      worker: `${process.pid}@${hostname()}`,
      crashPoint: async () => {},
    });
  } finally {
    gateway.close();
  }
}
