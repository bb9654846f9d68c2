import type { TestWorkflowEnvironment } from '@temporalio/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ensureSchedule, removeSchedule } from '../../src/client/schedule.ts';
import {
  BILLING_TASK_QUEUE,
  runWorkflowId,
  scheduleId,
  type RunRef,
} from '../../src/domain/ids.ts';
import { insertCustomers, runRef } from '../support/engine.ts';
import { assertInvariants } from '../support/invariants.ts';
import { startQuietDevServer, startStack, type Stack } from '../support/stack.ts';
import { until } from '../support/workflow-bench.ts';

let env: TestWorkflowEnvironment;
let stack: Stack;

beforeAll(async () => {
  env = await startQuietDevServer();
  stack = await startStack(env, { workers: 2 });
  await insertCustomers(
    stack.db,
    Array.from({ length: 15 }, (_, i) => ({ id: `t${i}` })),
  );
});
afterAll(async () => {
  await stack.close();
  await env.teardown();
});

const monthly = {
  dayOfMonth: 1,
  hour: 0,
  minute: 0,
  zone: 'UTC',
  granularity: 'month',
  bills: 'current',
} as const;

/** Waits for the period's run to appear and to close. */
async function closed(run: RunRef) {
  const handle = stack.client.run(run);
  await until(`${run.period} has a run`, () =>
    handle.describe().then(
      () => true,
      () => false,
    ),
  );
  return handle.result();
}

function tick(run: RunRef, id: string): Promise<unknown> {
  return stack.client.temporal.workflow.execute('billingTick', {
    workflowId: id,
    taskQueue: BILLING_TASK_QUEUE,
    args: [{ namespace: run.namespace, period: run.period, granularity: 'month', zone: 'UTC' }],
  });
}

const witnesses = (run: RunRef) => ({
  databaseUrl: stack.databaseUrl,
  simulator: stack.simulator,
  temporal: stack.client.temporal,
  run,
});

const temporal = () => stack.client.temporal;

describe('a Schedule', () => {
  it('bills the periods it is back-filled for, each by its nominal time and none by the clock', async () => {
    const [june, july] = [runRef('2025-06'), runRef('2025-07')];
    await ensureSchedule(temporal(), { ...monthly, namespace: june.namespace });
    const handle = temporal().schedule.getHandle(scheduleId(june.namespace));
    await handle.backfill({
      start: new Date('2025-05-31T23:00:00Z'),
      end: new Date('2025-07-01T01:00:00Z'),
      overlap: 'ALLOW_ALL',
    });
    for (const run of [june, july]) {
      expect((await closed(run)).counts.charged).toBe(15);
      await assertInvariants(witnesses(run));
    }
    const root = await stack.client.run(june).describe();
    expect(root.raw.workflowExecutionInfo?.parentExecution?.workflowId).toMatch(
      /^billing-tick-2025-06-01T00:00:00Z/,
    );
    const running = await temporal().workflow.count(`WorkflowId STARTS_WITH 'billing-2026'`);
    expect(running.count).toBe(0);
    await removeSchedule(temporal(), june.namespace);
  });

  it('I10, G3, G4, G5, I3: charges once when two Schedules, registered twice, hand and 8 ticks name one period at once', async () => {
    const run = runRef('2025-09');
    const { namespace } = run;
    await ensureSchedule(temporal(), { ...monthly, namespace });
    expect((await ensureSchedule(temporal(), { ...monthly, namespace })).action).toBe('unchanged');
    const handle = temporal().schedule.getHandle(scheduleId(namespace));
    // What an upgrade may leave behind: a second Schedule that fires the same tick at the same time.
    const { spec, action } = await handle.describe();
    const old = await temporal().schedule.create({
      scheduleId: 'left-by-an-upgrade',
      spec,
      action: { ...action, workflowId: 'tick-of-the-old-one' },
    });
    const around = {
      start: new Date('2025-08-31T23:00:00Z'),
      end: new Date('2025-09-01T01:00:00Z'),
      overlap: 'ALLOW_ALL' as const,
    };
    const answers = await Promise.all([
      handle.backfill(around),
      old.backfill(around),
      stack.client.startRun(run, 'by hand'),
      stack.client.startRun(run, 'by hand, too'),
      ...Array.from({ length: 8 }, (_, i) => tick(run, `tick-at-once-${i}`)),
    ]);
    expect(answers).toHaveLength(12);
    await closed(run);
    await handle.backfill(around);
    await old.backfill(around);
    await tick(run, 'tick-days-later');
    expect((await closed(run)).counts.charged).toBe(15);
    expect(stack.simulator.ledger({ period: run.period }).entries).toHaveLength(15);
    for (const tickId of ['billing-tick', 'tick-of-the-old-one']) {
      const fired = `WorkflowType = 'billingTick' AND WorkflowId STARTS_WITH '${tickId}-2025-09-01'`;
      await until(`${tickId} has fired`, async () => (await listed(fired)) > 0);
    }
    const roots = await listed(`WorkflowId = '${runWorkflowId(run)}'`);
    expect(roots).toBe(1);
    await assertInvariants(witnesses(run));
    await old.delete();
    await removeSchedule(temporal(), namespace);
  });

  it('I2: bills another namespace of the same period as a run of its own', async () => {
    const [base, overage] = [runRef('2025-10'), runRef('2025-10', 'overage')];
    await Promise.all([
      stack.client.startRun(base, 'test'),
      stack.client.startRun(overage, 'test'),
    ]);
    for (const run of [base, overage]) {
      expect((await closed(run)).counts.charged).toBe(15);
      await assertInvariants(witnesses(run));
    }
  });

  it('can be found by period and outcome in the Temporal UI', async () => {
    await until(
      'indexed',
      async () =>
        (await listed(
          `BillingPeriod = '2025-10' AND BillingOutcome = 'charged' AND BillingNamespace = 'overage'`,
        )) === 15,
    );
    expect(await listed(`BillingPeriod = '2025-10' AND WorkflowType = 'billingRun'`)).toBe(2);
  });
});

async function listed(query: string): Promise<number> {
  return (await temporal().workflow.count(query)).count;
}
