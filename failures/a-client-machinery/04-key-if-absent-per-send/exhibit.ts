import type { Exhibit } from '../../harness/exhibit.ts';
import { answerLost } from '../answer-lost.ts';
import { billEverybody as fixed } from './fixed.ts';
import { billEverybody as tempting } from './tempting.ts';

export const keyIfAbsentPerSend: Exhibit = {
  number: 4,
  name: 'key-if-absent-per-send',
  room: 'A',
  title: 'a plugin sets a key only if there is none, and sees a new request at every send',
  rule: 'A default that is made per send is no default. Refuse a charge without a key instead of making one up.',
  harm: 'chargedAgain',
  ...answerLost({ tempting, fixed }),
};
