import type { Exhibit } from '../../harness/exhibit.ts';
import type { TemptingWorld } from '../../harness/tempting-world.ts';
import { rerunAll } from '../customers.ts';
import { collect as fixed } from './fixed.ts';
import { collect as tempting } from './tempting.ts';

const HOUR_MS = 3_600_000;
/** The second customer's last try waits behind a long queue: Stripe has forgotten the key by then. */
const LATE = new Map([[16, 25]]);

/** Everybody's first try finds an empty account; an hour later there is money on it. */
async function collectFromAll(world: TemptingWorld, collect: typeof tempting): Promise<void> {
  for (const [at, customer] of world.customers.entries()) {
    declineFirst(world);
    let now = 0;
    await collect(world, customer, async (hour) => {
      const then = at === 0 ? hour : (LATE.get(hour) ?? hour);
      world.stripe.advanceClock((then - now) * HOUR_MS);
      now = then;
    });
  }
}

function declineFirst({ stripe }: TemptingWorld): void {
  stripe.setFaults({
    rules: [
      {
        id: 'empty account',
        endpoint: 'payment_intents.create',
        kind: 'declineOnce',
        declineCode: 'insufficient_funds',
        limit: 1,
      },
    ],
  });
}

export const keyAfterADecline: Exhibit = {
  number: 27,
  name: 'key-after-a-decline',
  room: 'E',
  title: 'one key per period, kept after a decline: declined for 24 hours, then charged at random',
  rule: 'A decline that is known ends the key; an order to try again makes the next. Nothing unknown ever does.',
  harm: 'missed',
  customers: 2,
  tempting: (world) => collectFromAll(world, tempting),
  fixed: (world) => collectFromAll(world, fixed),
  async ours(world) {
    world.stripe.setFaults({
      rules: [
        {
          id: 'empty account',
          endpoint: 'payment_intents.confirm',
          kind: 'declineOnce',
          declineCode: 'insufficient_funds',
          limit: world.customers.length,
        },
      ],
    });
    await world.bill();
    await rerunAll(world);
  },
};
