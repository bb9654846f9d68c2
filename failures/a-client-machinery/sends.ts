import type { OursWorld } from '../harness/ours-world.ts';
import type { WireAction, WireRequest } from '../harness/wire-server.ts';

/** A network that loses Stripe's answer to the first request, which Stripe has carried out. */
export function losesFirstAnswer(_request: WireRequest, count: number): WireAction {
  return count === 1 ? 'forwardThenClose' : 'forward';
}

/** A network that passes on the first so many confirms of a charge and loses Stripe's answers to them. */
export function losesConfirms(lost: number): (request: WireRequest) => WireAction {
  let confirms = 0;
  return ({ path }) => {
    if (!path.endsWith('/confirm')) return 'forward';
    confirms += 1;
    return confirms <= lost ? 'forwardThenClose' : 'forward';
  };
}

/**
 * Throws unless a confirm was sent again, each charge's under one key, and every send with an X-Attempt-Id of its own: a
 * fault that did not fire would show nothing.
 */
export async function sawOneKeyPerCharge({ stripe }: OursWorld): Promise<void> {
  const confirms = stripe.requests().filter(({ path }) => path.endsWith('/confirm'));
  const byCharge = Map.groupBy(confirms, ({ path }) => path);
  if (byCharge.size === confirms.length) throw new Error('nothing was sent again');
  for (const [path, own] of byCharge) {
    const keys = new Set(own.map(({ idempotencyKey }) => idempotencyKey));
    if (keys.size !== 1 || keys.has(null)) throw new Error(`${path} had ${keys.size} keys`);
  }
  const attempts = new Set(confirms.map(({ attemptId }) => attemptId));
  if (attempts.size !== confirms.length) throw new Error('two sends had one X-Attempt-Id');
}

/** Throws unless the database says of every customer what Stripe's ledger says: charged. */
export async function sawAllCharged({ database, customers }: OursWorld): Promise<void> {
  const slots = await database.db.selectFrom('billing_charges').select('state').execute();
  const charged = slots.filter(({ state }) => state === 'charged').length;
  if (charged !== customers.length)
    throw new Error(`${charged} of ${customers.length} slots are charged`);
}
