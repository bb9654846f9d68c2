import type { Exhibit } from '../../harness/exhibit.ts';
import { SENDS_OF_ONE_TRY } from '../../harness/lost-answers.ts';
import { answerLost } from '../answer-lost.ts';
import { billEverybody as fixed } from './fixed.ts';
import { billEverybody as tempting } from './tempting.ts';

export const sdkAutomaticKey: Exhibit = {
  number: 6,
  name: 'sdk-automatic-key',
  room: 'A',
  title: "the SDK's automatic key, one per call, retried above it",
  rule: 'A key that is made inside the call is as old as the call. Make it where the intention is made, and store it.',
  harm: 'chargedAgain',
  ...answerLost({ tempting, fixed, lost: SENDS_OF_ONE_TRY }),
};
