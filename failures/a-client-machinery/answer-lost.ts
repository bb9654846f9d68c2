import type { Exhibit, Shop } from '../harness/exhibit.ts';
import { losesConfirms, losingFirstAnswers, SENDS_OF_ONE_TRY } from '../harness/lost-answers.ts';
import { sawOneKeyPerCharge } from '../harness/sends.ts';

interface Ways {
  readonly tempting: (shop: Shop) => Promise<void>;
  readonly fixed: (shop: Shop) => Promise<void>;
  /** how many answers the code does not get; 1 unless said */
  readonly lost?: number;
}

/** What happens in most of this room: Stripe charges, the answer is lost, and the client's machinery sends again. */
export function answerLost({
  tempting,
  fixed,
  lost = 1,
}: Ways): Required<Pick<Exhibit, 'tempting' | 'fixed' | 'ours' | 'oursAlso'>> {
  return {
    tempting: losingFirstAnswers(lost, tempting),
    fixed: losingFirstAnswers(lost, fixed),
    async ours(world) {
      await world.wire(losesConfirms(SENDS_OF_ONE_TRY));
      await world.bill();
    },
    oursAlso: sawOneKeyPerCharge,
  };
}
