import type { Exhibit } from './harness/exhibit.ts';
import { clientMachinery } from './a-client-machinery/index.ts';

/** The gallery, room by room. */
export const EXHIBITS: readonly Exhibit[] = [...clientMachinery].sort(
  (one, other) => one.number - other.number,
);
