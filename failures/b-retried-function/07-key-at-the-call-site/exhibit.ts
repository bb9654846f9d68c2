import type { Exhibit } from '../../harness/exhibit.ts';
import { losesAnswers, losingFirstAnswers } from '../../harness/lost-answers.ts';
import { wasSent } from '../../harness/sends.ts';
import { billEverybody as fixed } from './fixed.ts';
import { billEverybody as tempting } from './tempting.ts';

/** Stripe's SDK tries once more by itself; so the retry above it is needed as well. */
const LOST_CREATES = 2;

export const keyAtTheCallSite: Exhibit = {
  number: 7,
  name: 'key-at-the-call-site',
  room: 'B',
  title: 'the key is made where the retried lambda calls',
  rule: 'Whatever stands inside the retried function is made anew by each try. Make the key before the retry begins.',
  harm: 'chargedAgain',
  tempting: losingFirstAnswers(1, tempting),
  fixed: losingFirstAnswers(1, fixed),
  async ours(world) {
    await world.wire(losesAnswers(LOST_CREATES, (path) => path === '/v1/payment_intents'));
    await world.bill();
    const creates = world.stripe.requests().filter(({ path }) => path === '/v1/payment_intents');
    wasSent('the create', creates.length, LOST_CREATES + 1);
  },
};
