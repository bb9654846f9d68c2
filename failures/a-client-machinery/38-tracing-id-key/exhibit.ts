import type { Exhibit } from '../../harness/exhibit.ts';
import { losesConfirms, losesFirstAnswer, sawOneKeyPerCharge } from '../sends.ts';
import { billEverybody as fixed } from './fixed.ts';
import { billEverybody as tempting } from './tempting.ts';

export const tracingIdKey: Exhibit = {
  number: 38,
  name: 'tracing-id-key',
  room: 'A',
  title: 'the id of the trace is used as the key',
  rule: 'A tracing id names a send, a key names a charge. Send both, in two headers.',
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
