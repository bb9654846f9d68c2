import { continueAsNew, setCurrentDetails, workflowInfo } from '@temporalio/workflow';
import type { SweepCursor, SweepReport, SweepSlot } from '../domain/sweep.ts';
import { listSweep, noteSweep, purge, START_AGAIN } from './policies.ts';
import { runCustomer } from './start-child.ts';
import { runInWindow } from './window.ts';

export interface HousekeepingInput {
  /** looks at every open slot, however short ago somebody looked */
  readonly everything?: boolean;
  /** goes on after this slot, with what was counted so far */
  readonly goOn?: { readonly after: SweepCursor; readonly report: SweepReport };
}

/** Slots read at once, and customers under way at once. */
const PAGE = 200;
const WINDOW = 10;

/**
 * The hourly sweep: every slot that a run left unknown is looked at again by the customer's own workflow,
 * bank debits under way included, and what has served its time is purged. A run that was paused or
 * stopped is only read. Twice, or beside a run: the customer's workflow ID lets one of them in.
 */
export async function housekeeping(input: HousekeepingInput = {}): Promise<SweepReport> {
  const counts = { looked: 0, settled: 0, leftOpen: 0, purged: 0, ...input.goOn?.report };
  let after = input.goOn?.after ?? null;
  let mayBill = true;
  if (after === null) counts.purged = (await purge()).purged;
  for (;;) {
    const page = await listSweep({ after, limit: PAGE, everything: input.everything === true });
    await runInWindow(page, { size: WINDOW, mayStart: async () => true }, async (slot) => {
      const result = await attend(slot, mayBill);
      if (result === null) return;
      // A refused key would refuse everybody who is left: from here on, only look.
      if (result.stopsRun) mayBill = false;
      counts.looked += 1;
      if (result.outcome === 'indeterminate') counts.leftOpen += 1;
      else counts.settled += 1;
    });
    const last = page.at(-1);
    if (last === undefined || page.length < PAGE) break;
    after = { namespace: last.namespace, period: last.period, customerId: last.customerId };
    if (workflowInfo().continueAsNewSuggested) {
      await continueAsNew<typeof housekeeping>({ ...input, goOn: { after, report: counts } });
    }
  }
  await noteSweep(counts);
  const { looked, settled, leftOpen, purged } = counts;
  setCurrentDetails(
    `looked at ${looked}, settled ${settled}, still open ${leftOpen}, purged ${purged}`,
  );
  return counts;
}

function attend(slot: SweepSlot, mayBill: boolean) {
  return runCustomer(slot, {
    workflowIdReusePolicy: START_AGAIN,
    summary: `${slot.customerId} · ${slot.period} · sweep`,
    look: slot.readOnly || !mayBill ? { readOnly: true } : { unlessHeld: true },
  });
}
