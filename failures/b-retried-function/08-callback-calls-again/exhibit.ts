import type { Exhibit } from '../../harness/exhibit.ts';
import { losesAnswers, losingFirstAnswers } from '../../harness/lost-answers.ts';
import { wasSent } from '../../harness/sends.ts';
import { billEverybody as fixed } from './fixed.ts';
import { billEverybody as tempting } from './tempting.ts';

/** The connection breaks after Stripe has charged, so often. */
const BREAKS = 2;

export const callbackCallsAgain: Exhibit = {
  number: 8,
  name: 'callback-calls-again',
  room: 'B',
  title: "the error callback calls the method again, and the method makes its request's key",
  rule: 'A resend is the same request. What resends has to be given the key; what makes the key must not be called again.',
  harm: 'chargedAgain',
  tempting: losingFirstAnswers(BREAKS, tempting),
  fixed: losingFirstAnswers(BREAKS, fixed),
  async ours(world) {
    await world.wire(losesAnswers(BREAKS, (path) => path.endsWith('/confirm')));
    await world.bill();
    // A second confirm, or a look at what became of the first.
    const about = world.stripe.requests().filter(({ path }) => path.includes('/pi_'));
    wasSent('word of the charge', about.length, 2);
  },
};
