import type { Exhibit } from '../../harness/exhibit.ts';
import { losesConfirms, losesFirstAnswer, sawOneKeyPerCharge } from '../sends.ts';
import { billEverybody as fixed } from './fixed.ts';
import { billEverybody as tempting } from './tempting.ts';

export const axiosRetryInterceptor: Exhibit = {
  number: 37,
  name: 'axios-retry-interceptor',
  room: 'A',
  title: 'axios-retry runs the request interceptors again, and one of them makes the key',
  rule: 'A request interceptor runs per send, not per charge. The key comes from the caller.',
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
