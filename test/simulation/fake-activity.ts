// What src/activities sees of @temporalio/activity in the simulation.
import { thisFiber } from './fiber.ts';

export function activityInfo(): { readonly attempt: number } {
  return { attempt: thisFiber().attempt };
}

/** The executor knows who is alive. */
export function heartbeat(): void {}
