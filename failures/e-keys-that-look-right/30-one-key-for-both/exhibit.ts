import type { Exhibit } from '../../harness/exhibit.ts';
import type { TemptingWorld } from '../../harness/tempting-world.ts';
import { keysOf } from '../../harness/sends.ts';
import { giveCards, rerunAll } from '../customers.ts';
import { charge as fixed } from './fixed.ts';
import { charge as tempting } from './tempting.ts';

const EXPIRED_CARD = 'pm_card_declined_expired_card';
const NEW_CARD = 'pm_card_visa';

/** The card has expired, and the customer brings a new one. */
async function chargeAll(world: TemptingWorld, charge: typeof tempting): Promise<void> {
  for (const customer of world.customers)
    await charge(world, { ...customer, paymentMethod: EXPIRED_CARD }, async () => NEW_CARD);
}

export const oneKeyForBoth: Exhibit = {
  number: 30,
  name: 'one-key-for-both',
  room: 'E',
  title: 'one key for creating and for confirming: after a decline nobody is charged',
  rule: 'A key names one operation. Creating, confirming and giving back each have their own.',
  harm: 'missed',
  tempting: (world) => chargeAll(world, tempting),
  fixed: (world) => chargeAll(world, fixed),
  async ours(world) {
    await giveCards(world, EXPIRED_CARD);
    await world.bill();
    await giveCards(world, NEW_CARD);
    await rerunAll(world);
  },
  async oursAlso(world) {
    const keys = [...keysOf(world, 'create'), ...keysOf(world, 'confirm')];
    if (keys.length !== 3 || new Set(keys).size !== 3)
      throw new Error(`${keys.length} sends had ${new Set(keys).size} keys, instead of 3 and 3`);
  },
};
