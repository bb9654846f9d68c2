import type { Exhibit } from './harness/exhibit.ts';
import { clientMachinery } from './a-client-machinery/index.ts';
import { retriedFunction } from './b-retried-function/index.ts';
import { fanOutAndReconnect } from './c-fan-out-and-reconnect/index.ts';
import { manySchedulers } from './d-many-schedulers/index.ts';
import { keysThatLookRight } from './e-keys-that-look-right/index.ts';
import { backstop } from './f-backstop/index.ts';
import { http } from './g-http/index.ts';

/** The gallery, room by room. */
export const EXHIBITS: readonly Exhibit[] = [
  ...clientMachinery,
  ...retriedFunction,
  ...fanOutAndReconnect,
  ...manySchedulers,
  ...keysThatLookRight,
  ...backstop,
  ...http,
].sort((one, other) => one.number - other.number);
