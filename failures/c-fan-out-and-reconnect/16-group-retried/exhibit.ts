import type { Exhibit, Shop } from '../../harness/exhibit.ts';
import type { TemptingWorld } from '../../harness/tempting-world.ts';
import { sawOneKeyPerCharge } from '../../harness/sends.ts';
import { losesAnswers } from '../../harness/lost-answers.ts';
import { orderAllAgain, orderCharge } from '../orders.ts';
import { billEverybody as fixed } from './fixed.ts';
import { billEverybody as tempting } from './tempting.ts';

const CUSTOMERS = 3;
/** Stripe's SDK sends a request once more when its connection breaks, whatever it is told. */
const LOST = 2;

/** Everybody is charged, and the answers about the second customer are lost. */
async function oneAnswerLost(
  world: TemptingWorld,
  billEverybody: (shop: Shop) => Promise<void>,
): Promise<void> {
  const member = world.customers[1];
  let lost = 0;
  const wire = await world.wire(({ body }) => {
    if (new URLSearchParams(body).get('customer') !== member?.stripeCustomer) return 'forward';
    lost += 1;
    return lost <= LOST ? 'forwardThenClose' : 'forward';
  });
  await billEverybody({ ...world, stripeUrl: wire.url });
}

export const groupRetried: Exhibit = {
  number: 16,
  name: 'group-retried',
  room: 'C',
  title: 'the failed members of a group are charged again as a new group',
  rule: 'A member without an answer has not failed. It stays what it was, with its key, in whatever group it is tried again.',
  harm: 'chargedAgain',
  customers: CUSTOMERS,
  tempting: (world) => oneAnswerLost(world, tempting),
  fixed: (world) => oneAnswerLost(world, fixed),
  async ours(world) {
    const { client, run, customers } = world;
    let member: string | undefined;
    await world.wire(
      losesAnswers(LOST, (path) => {
        if (!path.endsWith('/confirm')) return false;
        member ??= path;
        return path === member;
      }),
    );
    await world.addWorker();
    // The group is ordered twice at the start, and again when everything is over.
    for (const trigger of ['group-1', 'group-2'])
      for (const customer of customers) await orderCharge(world, { customer, trigger });
    await client.run(run).result();
    await orderAllAgain(world, 'group-3');
  },
  oursAlso: sawOneKeyPerCharge,
};
