import type { Exhibit } from '../../harness/exhibit.ts';
import { losesConfirms } from '../../harness/lost-answers.ts';
import { sawOneKeyPerCharge } from '../../harness/sends.ts';
import type { WireAction } from '../../harness/wire-server.ts';
import { billEverybody as fixed } from './fixed.ts';
import { billEverybody as tempting } from './tempting.ts';

/** The first customer opens the connection; under the second it dies, after Stripe has charged. */
const diesInUse = (_request: unknown, count: number): WireAction =>
  count === 2 ? 'forwardThenClose' : 'forward';

export const interceptorKeyResend: Exhibit = {
  number: 1,
  name: 'interceptor-key-resend',
  room: 'A',
  title: 'a request interceptor makes the key, and a dead pooled connection is sent on again',
  rule: 'What runs for every send may name the send, never the charge. The key comes from the caller.',
  harm: 'chargedAgain',
  customers: 2,
  async tempting(world) {
    const wire = await world.wire(diesInUse);
    await tempting({ ...world, stripeUrl: wire.url });
  },
  async fixed(world) {
    const wire = await world.wire(diesInUse);
    await fixed({ ...world, stripeUrl: wire.url });
  },
  async ours(world) {
    // The create has opened the connection that the confirm dies on.
    await world.wire(losesConfirms(1));
    await world.bill();
  },
  oursAlso: sawOneKeyPerCharge,
};
