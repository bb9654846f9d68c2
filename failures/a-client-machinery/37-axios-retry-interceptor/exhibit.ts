import type { Exhibit } from '../../harness/exhibit.ts';
import { answerLost } from '../answer-lost.ts';
import { billEverybody as fixed } from './fixed.ts';
import { billEverybody as tempting } from './tempting.ts';

export const axiosRetryInterceptor: Exhibit = {
  number: 37,
  name: 'axios-retry-interceptor',
  room: 'A',
  title: 'axios-retry runs the request interceptors again, and one of them makes the key',
  rule: 'A request interceptor runs per send, not per charge. The key comes from the caller.',
  harm: 'chargedAgain',
  ...answerLost({ tempting, fixed }),
};
