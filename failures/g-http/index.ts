import type { Exhibit } from '../harness/exhibit.ts';
import { noKeyLayer } from './35-no-key-layer/exhibit.ts';
import { checkThenAct } from './40-check-then-act/exhibit.ts';
import { cacheThatEvicts } from './41-cache-that-evicts/exhibit.ts';
import { serverErrorsRunAgain } from './42-server-errors-run-again/exhibit.ts';
import { claimDeletedOnError } from './43-claim-deleted-on-error/exhibit.ts';

/** An API that charges, and the layers in front of it that look as if they kept a key. */
export const http: readonly Exhibit[] = [
  noKeyLayer,
  checkThenAct,
  cacheThatEvicts,
  serverErrorsRunAgain,
  claimDeletedOnError,
];
