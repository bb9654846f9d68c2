import type { SlotRef } from './ids.ts';

/** Sweeps go through slots in the order of their keys. */
export type SweepCursor = SlotRef;

export interface SweepPage {
  readonly after: SweepCursor | null;
  readonly limit: number;
  /** however short ago somebody looked */
  readonly everything: boolean;
}

export interface SweepSlot extends SlotRef {
  /** its run was paused or stopped: Stripe may be asked, nothing may be sent */
  readonly readOnly: boolean;
}

/** What one pass of the sweep did. Counts of slots; `purged` of rows. */
export interface SweepReport {
  readonly looked: number;
  readonly settled: number;
  readonly leftOpen: number;
  readonly purged: number;
}
