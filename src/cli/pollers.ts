import type { RunClient } from '../client.ts';
import { BILLING_TASK_QUEUE, CHARGE_TASK_QUEUE } from '../domain/ids.ts';

/** A poll lasts up to 60 s and is noted at its beginning; a worker seen before that is gone. */
const POLLER_SEEN_WITHIN_MS = 75_000;

/** TASK_QUEUE_TYPE_WORKFLOW and TASK_QUEUE_TYPE_ACTIVITY of Temporal's API. */
const WORKFLOW_TASKS = 1;
const ACTIVITY_TASKS = 2;

/** True when live workers poll both queues. */
export async function hasPollers(client: RunClient): Promise<boolean> {
  const billing = await countPollers(client, BILLING_TASK_QUEUE, WORKFLOW_TASKS);
  const charge = await countPollers(client, CHARGE_TASK_QUEUE, ACTIVITY_TASKS);
  return billing > 0 && charge > 0;
}

/** Workers seen polling a queue lately. */
export async function countPollers(
  client: RunClient,
  taskQueue: string,
  type: number = ACTIVITY_TASKS,
): Promise<number> {
  const { workflowService, options } = client.temporal;
  const answer = await workflowService.describeTaskQueue({
    namespace: options.namespace,
    taskQueue: { name: taskQueue },
    taskQueueType: type,
  });
  const since = Date.now() - POLLER_SEEN_WITHIN_MS;
  return (answer.pollers ?? []).filter((poller) => {
    const seconds = Number(poller.lastAccessTime?.seconds ?? 0);
    return seconds * 1000 >= since;
  }).length;
}
