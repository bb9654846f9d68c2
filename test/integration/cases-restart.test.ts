import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { TestWorkflowEnvironment } from '@temporalio/testing';
import { Worker } from '@temporalio/worker';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ensureSchedule } from '../../src/client/schedule.ts';
import { BILLING_TASK_QUEUE, runWorkflowId, scheduleId } from '../../src/domain/ids.ts';
import { FakeWorld } from '../support/fakes.ts';
import { runRef } from '../support/names.ts';
import { startQuietDevServer } from '../support/stack.ts';
import { until, workflowBundle } from '../support/workflow-bench.ts';

// A failure that others had in public; the id is that of docs/cases.md.

const DAY = runRef('2025-03-01');

let folder: string;
let env: TestWorkflowEnvironment;
beforeAll(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'chargeonce-restart-'));
});
afterAll(async () => {
  await env.teardown();
  rmSync(folder, { recursive: true, force: true });
});

const start = async (): Promise<void> => {
  env = await startQuietDevServer({ dbFilename: path.join(folder, 'temporal.sqlite') });
};

/** Lets the Schedule fire for the day, as its clock would. */
async function fire(): Promise<void> {
  await env.client.schedule.getHandle(scheduleId(DAY.namespace)).backfill({
    start: new Date('2025-02-28T23:00:00Z'),
    end: new Date('2025-03-01T01:00:00Z'),
    overlap: 'ALLOW_ALL',
  });
}

const counted = async (query: string): Promise<number> =>
  (await env.client.workflow.count(query)).count;
const ticks = (status: string) =>
  counted(`WorkflowType = 'billingTick' AND ExecutionStatus = '${status}'`);

describe('a Schedule that fires around a restart of the server', () => {
  it('J8: before it, after it and once more when all is done starts one run of its period', async () => {
    await start();
    await ensureSchedule(env.client, {
      namespace: DAY.namespace,
      dayOfMonth: 1,
      hour: 0,
      minute: 0,
      zone: 'UTC',
      granularity: 'day',
      bills: 'current',
    });
    await fire();
    await until('the tick waits for a worker', async () => (await ticks('Running')) > 0);
    await env.teardown();
    await start();
    await fire();
    const world = new FakeWorld([]);
    world.state = 'completed';
    const worker = await Worker.create({
      connection: env.nativeConnection,
      taskQueue: BILLING_TASK_QUEUE,
      workflowBundle: await workflowBundle(),
      activities: world.billing,
    });
    await worker.runUntil(async () => {
      await until('a tick is done', async () => (await ticks('Completed')) > 0);
      const before = await ticks('Completed');
      await fire();
      await until('the last one too', async () => (await ticks('Completed')) > before);
      await until('none is open', async () => (await ticks('Running')) === 0);
    });
    const runs = `WorkflowId = '${runWorkflowId(DAY)}'`;
    await until('the run is listed', async () => (await counted(runs)) > 0);
    expect(await counted(`WorkflowType = 'billingRun'`)).toBe(1);
  });
});
