import type { RunClient } from '../client.ts';
import { BILLING_TASK_QUEUE, CHARGE_TASK_QUEUE } from '../domain/ids.ts';

/** A poll lasts up to 60 s and is noted at its beginning; a worker seen before that is gone. */
const POLLER_SEEN_WITHIN_MS = 75_000;

/** What a queue is polled for, in the words of Temporal's API. */
export type PolledFor = 'workflow' | 'activity';

/** True when live workers poll both queues. */
export async function hasPollers(client: RunClient): Promise<boolean> {
  const billing = await countPollers(client, BILLING_TASK_QUEUE, 'workflow');
  const charge = await countPollers(client, CHARGE_TASK_QUEUE, 'activity');
  return billing > 0 && charge > 0;
}

/** TASK_QUEUE_TYPE_WORKFLOW and TASK_QUEUE_TYPE_ACTIVITY of Temporal's API. */
const TYPES: Readonly<Record<PolledFor, number>> = { workflow: 1, activity: 2 };

/** Workers seen polling a queue lately. */
export async function countPollers(
  client: RunClient,
  taskQueue: string,
  polledFor: PolledFor,
): Promise<number> {
  const { workflowService, options } = client.temporal;
  const answer = await workflowService.describeTaskQueue({
    namespace: options.namespace,
    taskQueue: { name: taskQueue },
    // oxlint-disable-next-line typescript/no-unsafe-enum-assignment -- the enum is in a package of the SDK's own
    taskQueueType: TYPES[polledFor],
  });
  const since = Date.now() - POLLER_SEEN_WITHIN_MS;
  return (answer.pollers ?? []).filter((poller) => {
    const seconds = Number(poller.lastAccessTime?.seconds ?? 0);
    return seconds * 1000 >= since;
  }).length;
}
