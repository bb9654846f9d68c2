import type { Exhibit } from '../../harness/exhibit.ts';
import { losesConfirms, sawOneKeyPerCharge } from '../sends.ts';
import { billEverybody as fixed } from './fixed.ts';
import { billEverybody as tempting } from './tempting.ts';

/** Stripe charges and the answer is lost, as often as the SDK itself tries. */
const LOST_ANSWERS = 2;

export const sdkAutomaticKey: Exhibit = {
  number: 6,
  name: 'sdk-automatic-key',
  room: 'A',
  title: "the SDK's automatic key, one per call, retried above it",
  rule: 'A key that is made inside the call is as old as the call. Make it where the intention is made, and store it.',
  harm: 'chargedAgain',
  async tempting(world) {
    const wire = await world.wire((_request, count) =>
      count <= LOST_ANSWERS ? 'forwardThenClose' : 'forward',
    );
    await tempting({ ...world, stripeUrl: wire.url });
  },
  async fixed(world) {
    const wire = await world.wire((_request, count) =>
      count <= LOST_ANSWERS ? 'forwardThenClose' : 'forward',
    );
    await fixed({ ...world, stripeUrl: wire.url });
  },
  async ours(world) {
    await world.wire(losesConfirms(LOST_ANSWERS));
    await world.bill();
  },
  oursAlso: sawOneKeyPerCharge,
};
