import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { BILLING_TASK_QUEUE, runWorkflowId } from '../../src/domain/ids.ts';
import type { billingRun } from '../../src/workflows/billing-run.ts';
import type { billingTick } from '../../src/workflows/billing-tick.ts';
import { rerunCustomerSignal, type RerunMessage } from '../../src/workflows/messages.ts';
import { slotRef } from '../support/names.ts';
import { gate, startBench, until, type Bench } from '../support/workflow-bench.ts';

let bench: Bench;
beforeAll(async () => {
  bench = await startBench();
});
afterAll(() => bench.close());

describe('billingTick', () => {
  it('bills the period when an order for one customer had its workflow ID just then', async () => {
    const { world, run } = bench.world(['a', 'b', 'c']);
    const { workflow } = bench.env.client;
    const database = gate();
    world.before = async (name) => {
      if (name === 'decideRerun') await database.opened;
    };
    await workflow.signalWithStart<typeof billingRun, [RerunMessage]>('billingRun', {
      workflowId: runWorkflowId(run),
      taskQueue: BILLING_TASK_QUEUE,
      args: [{ ...run, startedBy: 'olga', onlyReruns: true }],
      signal: rerunCustomerSignal,
      signalArgs: [
        { customerId: slotRef('a').customerId, operator: 'olga', reason: 'early', requestId: 'r1' },
      ],
    });
    await until('the order is being decided', () => world.count('decideRerun') > 0);
    const tick = await workflow.start<typeof billingTick>('billingTick', {
      workflowId: `tick-${run.period}`,
      taskQueue: BILLING_TASK_QUEUE,
      args: [{ namespace: run.namespace, granularity: 'day', zone: 'UTC', period: run.period }],
    });
    await until('the tick has found the ID taken', () => world.count('readPlan') > 1);
    database.open();
    expect((await tick.result()).started).toBe('started');
    const totals = await workflow.getHandle<typeof billingRun>(runWorkflowId(run)).result();
    expect(totals.counts.charged).toBe(3);
    expect(world.count('charge')).toBe(3);
  });
});
