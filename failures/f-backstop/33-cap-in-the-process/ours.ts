import { ensureEnvironment } from '../../../src/db/environment.ts';
import { capOf } from '../../../src/domain/spend-cap.ts';
import type { Log } from '../../../src/log.ts';
import { Secret } from '../../../src/secret.ts';
import type { RunningVault } from '../../../src/vault.ts';
import { ADMIN_TOKEN, type OursWorld } from '../../harness/ours-world.ts';
import { startWireServer, type WireServer } from '../../harness/wire-server.ts';

/** The address and the key that the careless job is given instead of Stripe's. */
export interface Guarded {
  readonly stripeUrl: string;
  readonly apiKey: string;
}

/** The vault logs its alerts as errors, and here they are expected. */
const QUIET: Log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };

/** What the plan expects, and what may be spent. */
export function sumsOf({ customers }: OursWorld): { dueMinor: number; capMinor: number } {
  const dueMinor = customers.reduce((sum, { amountMinor }) => sum + amountMinor, 0);
  return { dueMinor, capMinor: capOf(dueMinor) };
}

/** Takes alerts as a pager does. */
export async function startPager(world: OursWorld): Promise<WireServer> {
  const pager = await startWireServer(() => ({ status: 200, body: {} }));
  world.defer(() => pager.close());
  return pager;
}

/** A vault in front of Stripe, and a key of it that may spend 110 % of what is due. */
export async function guard(world: OursWorld, pagerUrl: string): Promise<Guarded> {
  await adoptAccount(world);
  const webhook = { url: new Secret(pagerUrl), secret: new Secret('whsec_exhibit') };
  const vault = await world.addVault({ alerts: { webhook, slackUrl: null }, log: QUIET });
  return { stripeUrl: vault.proxyUrl, apiKey: await makeKey(world, vault) };
}

/** A vault works for the account that its database belongs to; a first worker would have written it down. */
async function adoptAccount({ stripeUrl, apiKey, database }: OursWorld): Promise<void> {
  const answer = await fetch(`${stripeUrl}/v1/account`, {
    headers: { authorization: `Bearer ${apiKey}` },
  });
  const account: unknown = await answer.json();
  if (typeof account !== 'object' || account === null || !('id' in account))
    throw new TypeError('Stripe does not say whose key this is');
  await ensureEnvironment(database.db, { account: String(account.id), liveMode: false });
}

async function makeKey(world: OursWorld, vault: RunningVault): Promise<string> {
  const answer = await fetch(`${vault.adminUrl}/vault/keys`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${ADMIN_TOKEN.reveal()}`,
      'content-type': 'application/json',
    },
    body: JSON.stringify({
      vendor: 'stripe',
      max_amount: sumsOf(world).capMinor,
      currency: 'usd',
      allowed_endpoints: ['POST /v1/payment_intents'],
    }),
  });
  const made: unknown = await answer.json();
  if (typeof made !== 'object' || made === null || !('key' in made))
    throw new Error(`the vault made no key: ${answer.status} ${JSON.stringify(made)}`);
  return String(made.key);
}
