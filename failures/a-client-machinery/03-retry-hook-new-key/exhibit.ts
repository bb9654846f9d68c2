import type { Exhibit } from '../../harness/exhibit.ts';
import { answerLost } from '../answer-lost.ts';
import { billEverybody as fixed } from './fixed.ts';
import { billEverybody as tempting } from './tempting.ts';

export const retryHookNewKey: Exhibit = {
  number: 3,
  name: 'retry-hook-new-key',
  room: 'A',
  title: "a retry hook (got's beforeRetry) overwrites the request's key",
  rule: 'A retry asks what became of the first send, so it has the first key. A new key is a new charge.',
  harm: 'chargedAgain',
  ...answerLost({ tempting, fixed }),
};
