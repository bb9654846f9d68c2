import type { Exhibit } from '../../harness/exhibit.ts';
import { answerLost } from '../answer-lost.ts';
import { billEverybody as fixed } from './fixed.ts';
import { billEverybody as tempting } from './tempting.ts';

export const retryCounterKey: Exhibit = {
  number: 5,
  name: 'retry-counter-key',
  room: 'A',
  title: 'the retry counter is part of the key',
  rule: 'The key says which charge it is. Which try it is goes into X-Attempt-Id.',
  harm: 'chargedAgain',
  ...answerLost({ tempting, fixed }),
};
