import type { Exhibit } from '../../harness/exhibit.ts';
import { answerLost } from '../answer-lost.ts';
import { billEverybody as fixed } from './fixed.ts';
import { billEverybody as tempting } from './tempting.ts';

export const tracingIdKey: Exhibit = {
  number: 38,
  name: 'tracing-id-key',
  room: 'A',
  title: 'the id of the trace is used as the key',
  rule: 'A tracing id names a send, a key names a charge. Send both, in two headers.',
  harm: 'chargedAgain',
  ...answerLost({ tempting, fixed }),
};
