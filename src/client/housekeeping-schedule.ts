import {
  ScheduleAlreadyRunning,
  ScheduleNotFoundError,
  ScheduleOverlapPolicy,
  type Client,
} from '@temporalio/client';
import { BILLING_TASK_QUEUE, HOUSEKEEPING_ID } from '../domain/ids.ts';
import type { HousekeepingInput } from '../workflows/housekeeping.ts';

/** Away from the full hour, at which billing runs like to begin. */
const OFFSET = '17 minutes';
/** A sweep that was missed is made up for by the next one. */
const CATCHUP_WINDOW = '10 minutes';

/**
 * Makes the hourly sweep's Schedule when there is none. Every worker calls it at its start, so that nobody
 * has to remember it; one that is there, paused ones included, is left as it is.
 */
export async function ensureHousekeeping(client: Client): Promise<'created' | 'there'> {
  const input: HousekeepingInput = {};
  try {
    await client.schedule.create({
      scheduleId: HOUSEKEEPING_ID,
      spec: { intervals: [{ every: '1 hour', offset: OFFSET }] },
      action: {
        type: 'startWorkflow',
        workflowType: 'housekeeping',
        workflowId: HOUSEKEEPING_ID,
        taskQueue: BILLING_TASK_QUEUE,
        args: [input],
        staticSummary: 'looks at every charge whose outcome is not known',
      },
      policies: { overlap: ScheduleOverlapPolicy.SKIP, catchupWindow: CATCHUP_WINDOW },
    });
    return 'created';
  } catch (error) {
    if (error instanceof ScheduleAlreadyRunning) return 'there';
    throw error;
  }
}

export interface HousekeepingStatus {
  readonly paused: boolean;
  readonly nextAt: Date | null;
}

/** The sweep's Schedule as Temporal has it, or null when there is none. */
export async function describeHousekeeping(client: Client): Promise<HousekeepingStatus | null> {
  try {
    const { state, info } = await client.schedule.getHandle(HOUSEKEEPING_ID).describe();
    return { paused: state.paused, nextAt: info.nextActionTimes[0] ?? null };
  } catch (error) {
    if (error instanceof ScheduleNotFoundError) return null;
    throw error;
  }
}
