import { BILLING_TASK_QUEUE } from '../../src/domain/ids.ts';
import type { billingTick, TickInput } from '../../src/workflows/billing-tick.ts';
import type { OursWorld } from '../harness/ours-world.ts';

/** What a Schedule hands to its tick for the period of the exhibit. */
export function tickInput({ run }: OursWorld): TickInput {
  return { ...run, granularity: 'month', zone: 'UTC', bills: 'current' };
}

/**
 * Fires one tick, as a Schedule of this name does. A tick that finds the run begun and not planned looks again every ten
 * seconds; it is not waited for, and ends with the exhibit.
 */
export async function fireTick(world: OursWorld, schedule: string): Promise<void> {
  const handle = await world.client.temporal.workflow.start<typeof billingTick>('billingTick', {
    workflowId: `${schedule}-${world.run.period}`,
    taskQueue: BILLING_TASK_QUEUE,
    args: [tickInput(world)],
  });
  world.defer(() => handle.terminate('the exhibit is over').catch(() => {}));
}
