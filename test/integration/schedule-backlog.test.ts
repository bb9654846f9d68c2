import type { TestWorkflowEnvironment } from '@temporalio/testing';
import { Worker } from '@temporalio/worker';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ensureSchedule } from '../../src/client/schedule.ts';
import { BILLING_TASK_QUEUE, runWorkflowId, scheduleId } from '../../src/domain/ids.ts';
import { FakeWorld } from '../support/fakes.ts';
import { runRef } from '../support/names.ts';
import { startQuietDevServer } from '../support/stack.ts';
import { until, workflowBundle } from '../support/workflow-bench.ts';

let env: TestWorkflowEnvironment;
beforeAll(async () => {
  env = await startQuietDevServer();
});
afterAll(() => env.teardown());

describe('a daily Schedule', () => {
  it('S1: bills each day that came while no worker ran, once one is back', async () => {
    const first = runRef('2025-03-01');
    const days = [first, runRef('2025-03-02'), runRef('2025-03-03')];
    const { client } = env;
    await ensureSchedule(client, {
      namespace: first.namespace,
      dayOfMonth: 1,
      hour: 0,
      minute: 0,
      zone: 'UTC',
      granularity: 'day',
      bills: 'current',
    });
    const handle = client.schedule.getHandle(scheduleId(first.namespace));
    // The same as three midnights: due while the first tick waits for a worker, by the Schedule's own policy.
    await handle.backfill({
      start: new Date('2025-02-28T23:00:00Z'),
      end: new Date('2025-03-03T01:00:00Z'),
    });
    await until('the first tick waits', async () => {
      const { info } = await handle.describe();
      return info.runningActions.length > 0;
    });
    const world = new FakeWorld([]);
    world.state = 'completed';
    const worker = await Worker.create({
      connection: env.nativeConnection,
      taskQueue: BILLING_TASK_QUEUE,
      workflowBundle: await workflowBundle(),
      activities: world.billing,
    });
    await worker.runUntil(async () => {
      for (const day of days) await until(`${day.period} has its run`, () => started(day));
    });
    expect((await handle.describe()).info.numActionsSkippedOverlap).toBe(0);
  });
});

async function started(run: ReturnType<typeof runRef>): Promise<boolean> {
  return env.client.workflow
    .getHandle(runWorkflowId(run))
    .describe()
    .then(
      () => true,
      () => false,
    );
}
