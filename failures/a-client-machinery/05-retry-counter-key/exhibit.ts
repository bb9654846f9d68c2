import type { Exhibit } from '../../harness/exhibit.ts';
import { losesConfirms, losesFirstAnswer, sawOneKeyPerCharge } from '../sends.ts';
import { billEverybody as fixed } from './fixed.ts';
import { billEverybody as tempting } from './tempting.ts';

export const retryCounterKey: Exhibit = {
  number: 5,
  name: 'retry-counter-key',
  room: 'A',
  title: 'the retry counter is part of the key',
  rule: 'The key says which charge it is. Which try it is goes into X-Attempt-Id.',
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
