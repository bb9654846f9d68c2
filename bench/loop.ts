import { chargesOf } from './loop-deps.ts';
import type { Platform } from '../src/cli/platform.ts';
import { planRun, listItems } from '../src/db/runs.ts';
import type { RunRef } from '../src/domain/ids.ts';
import { charge } from '../src/activities/charge.ts';
import { claimSlot } from '../src/activities/claim-slot.ts';
import { record } from '../src/activities/record.ts';
import { round } from './measure-run.ts';

/**
 * What a cron job would do: one customer after the other through the same claim, charge and record
 * functions, without Temporal. Customers per second.
 */
export async function measureLoop(
  platform: Platform,
  run: RunRef,
  customers: number,
): Promise<{ customersPerSecond: number; seconds: number }> {
  const { deps, close } = await chargesOf(platform);
  try {
    await planRun(deps.db, run, 'bench loop');
    const items = await listItems(deps.db, run, { after: 0, upTo: customers });
    const began = performance.now();
    for (const { customerId } of items) {
      const slot = { ...run, customerId };
      const claim = await claimSlot(deps, slot);
      if (claim.kind !== 'claimed') throw new Error(`the loop found ${customerId} ${claim.kind}`);
      await record(deps, slot, await charge(deps, { ...slot, generation: claim.generation }, 1));
    }
    const seconds = (performance.now() - began) / 1000;
    return { seconds: round(seconds), customersPerSecond: round(items.length / seconds) };
  } finally {
    await close();
  }
}
