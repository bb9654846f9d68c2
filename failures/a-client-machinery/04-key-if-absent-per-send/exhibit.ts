import type { Exhibit } from '../../harness/exhibit.ts';
import { losesConfirms, losesFirstAnswer, sawOneKeyPerCharge } from '../sends.ts';
import { billEverybody as fixed } from './fixed.ts';
import { billEverybody as tempting } from './tempting.ts';

export const keyIfAbsentPerSend: Exhibit = {
  number: 4,
  name: 'key-if-absent-per-send',
  room: 'A',
  title: 'a plugin sets a key only if there is none, and sees a new request at every send',
  rule: 'A default that is made per send is no default. Refuse a charge without a key instead of making one up.',
  harm: 'chargedAgain',
  async tempting(world) {
    const wire = await world.wire(losesFirstAnswer);
    await tempting({ ...world, stripeUrl: wire.url });
  },
  async fixed(world) {
    const wire = await world.wire(losesFirstAnswer);
    await fixed({ ...world, stripeUrl: wire.url });
  },
  async ours(world) {
    await world.wire(losesConfirms(2));
    await world.bill();
  },
  oursAlso: sawOneKeyPerCharge,
};
