import type { World } from './world.ts';

const SHOWN = 20;

/** What was still under way when the time to heal was over: workflows, what they wait for and the last failure of each. */
export async function stuck(world: World): Promise<string[]> {
  const lines: string[] = [];
  const { workflow } = world.client.temporal;
  for await (const { workflowId } of workflow.list({ query: `ExecutionStatus = 'Running'` })) {
    if (lines.length >= SHOWN) break;
    const { raw } = await workflow.getHandle(workflowId).describe();
    const task = raw.pendingWorkflowTask;
    const waits = (raw.pendingActivities ?? []).map(
      (activity) =>
        `${activity.activityType?.name ?? '?'} (attempt ${activity.attempt ?? 0}, ` +
        `${activity.lastFailure?.message ?? 'no failure yet'})`,
    );
    if (task) waits.push(`a workflow task (attempt ${task.attempt ?? 0})`);
    lines.push(`under way: ${workflowId}: ${waits.join('; ') || 'a timer, a child or a signal'}`);
  }
  const slots = await world.query<{ line: string }>(
    `select concat_ws(' ', s.customer_id, s.state, 'generation', s.generation, s.reason, s.payment_intent_id,
       'updated', s.updated_at, 'looked at', s.looked_at, 'now', now()) as line
     from billing_charges s where state in ('claimed', 'sent', 'indeterminate', 'in_review') limit ${SHOWN}`,
  );
  return [...lines, ...slots.map(({ line }) => `open: ${line}`)];
}
