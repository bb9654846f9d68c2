import type { Exhibit, Shop } from '../../harness/exhibit.ts';
import type { TemptingWorld } from '../../harness/tempting-world.ts';
import type { WireAction, WireRequest, WireServer } from '../../harness/wire-server.ts';
import { sawAllCharged } from '../all-charged.ts';
import { billEverybody as fixed } from './fixed.ts';
import { billEverybody as tempting } from './tempting.ts';

/**
 * A gateway that is shut down: what it has in flight is with Stripe already, and it sends the callers to its sibling.
 * One hears it as 307, the next as 308.
 */
function drainedTo(sibling: WireServer): (request: WireRequest) => WireAction {
  let status = 308;
  return ({ path }) => {
    status = status === 308 ? 307 : 308;
    const headers = { Location: `${sibling.url}${path}` };
    return { forwardThen: { status, headers, body: {} } };
  };
}

async function throughGateways(
  world: TemptingWorld,
  billEverybody: (shop: Shop) => Promise<void>,
): Promise<void> {
  const sibling = await world.wire(() => 'forward');
  const gateway = await world.wire(drainedTo(sibling));
  await billEverybody({ ...world, stripeUrl: gateway.url });
}

export const keyPerRedirect: Exhibit = {
  number: 2,
  name: 'key-per-redirect',
  room: 'A',
  title: 'an interceptor near the wire makes a key for each hop of a 307 or 308',
  rule: 'A redirected POST is the same charge. Its key is made above whatever follows redirects.',
  harm: 'chargedAgain',
  customers: 2,
  tempting: (world) => throughGateways(world, tempting),
  fixed: (world) => throughGateways(world, fixed),
  async ours(world) {
    const sibling = await world.wire(() => 'forward');
    const drained = drainedTo(sibling);
    await world.wire((request) =>
      request.path.endsWith('/confirm') ? drained(request) : 'forward',
    );
    await world.bill();
  },
  oursAlso: sawAllCharged,
};
