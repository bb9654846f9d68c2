import type { Exhibit, Shop } from '../../harness/exhibit.ts';
import { gateFor } from '../../harness/gate.ts';
import type { TemptingWorld } from '../../harness/tempting-world.ts';
import type { WireAction } from '../../harness/wire-server.ts';
import { until } from '../../harness/until.ts';
import { billEverybody as fixed } from './fixed.ts';
import { billEverybody as tempting } from './tempting.ts';

const POSTS = '/v1/payment_intents';

/** Both are at work at once, and the first customer's charge reaches Stripe first. */
async function bothAtOnce(world: TemptingWorld, job: (shop: Shop) => Promise<void>): Promise<void> {
  const [first] = world.customers;
  const { stripe } = world;
  const wire = await world.wire(async ({ path, body }): Promise<WireAction> => {
    const isFirst = new URLSearchParams(body).get('customer') === first?.stripeCustomer;
    if (path === POSTS && !isFirst)
      await until(() => stripe.requests().some((request) => request.path === POSTS));
    return 'forward';
  });
  await job({ ...world, stripeUrl: wire.url });
}

export const sharedHandlerState: Exhibit = {
  number: 13,
  name: 'shared-handler-state',
  room: 'B',
  title: "one handler object for all requests: A is charged with B's key, and B is never charged",
  rule: 'What belongs to one charge travels as an argument. A field of a shared object belongs to whoever wrote it last.',
  harm: 'missed',
  customers: 2,
  tempting: (world) => bothAtOnce(world, tempting),
  fixed: (world) => bothAtOnce(world, fixed),
  async ours(world) {
    const both = gateFor(2);
    const wire = await world.wire(async ({ path }): Promise<WireAction> => {
      if (path === POSTS) await both.pass();
      return 'forward';
    });
    await world.bill();
    const creates = wire.requests.filter(({ path }) => path === POSTS);
    const keys = new Set(creates.map(({ headers }) => headers['idempotency-key']));
    if (keys.size !== 2) throw new Error(`two customers had ${keys.size} keys`);
  },
};
