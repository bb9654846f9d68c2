import type { Exhibit } from '../harness/exhibit.ts';
import { joinedParts } from './26-joined-parts/exhibit.ts';
import { keyAfterADecline } from './27-key-after-a-decline/exhibit.ts';
import { keyAfterADay } from './28-key-after-a-day/exhibit.ts';
import { amountChanged } from './29-amount-changed/exhibit.ts';
import { oneKeyForBoth } from './30-one-key-for-both/exhibit.ts';
import { truncatedHash } from './31-truncated-hash/exhibit.ts';
import { serverErrorAsFailed } from './32-server-error-as-failed/exhibit.ts';

/** Keys that look right: stable, stored, and still the wrong ones. */
export const keysThatLookRight: readonly Exhibit[] = [
  joinedParts,
  keyAfterADecline,
  keyAfterADay,
  amountChanged,
  oneKeyForBoth,
  truncatedHash,
  serverErrorAsFailed,
];
