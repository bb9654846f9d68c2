import type { Exhibit } from '../harness/exhibit.ts';
import { keyAtTheCallSite } from './07-key-at-the-call-site/exhibit.ts';
import { callbackCallsAgain } from './08-callback-calls-again/exhibit.ts';
import { callerTimeOut } from './09-caller-time-out/exhibit.ts';
import { lazyKey } from './10-lazy-key/exhibit.ts';
import { keyFromWhatIsAtHand } from './11-key-from-what-is-at-hand/exhibit.ts';
import { messageFiredAgain } from './12-message-fired-again/exhibit.ts';
import { sharedHandlerState } from './13-shared-handler-state/exhibit.ts';

/** Keys that are made inside what is tried again: a function, an object, a message, a connection. */
export const retriedFunction: readonly Exhibit[] = [
  keyAtTheCallSite,
  callbackCallsAgain,
  callerTimeOut,
  lazyKey,
  keyFromWhatIsAtHand,
  messageFiredAgain,
  sharedHandlerState,
];
