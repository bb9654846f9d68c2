import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { BILLING_TASK_QUEUE, runWorkflowId } from '../../src/domain/ids.ts';
import type { billingTick, TickInput } from '../../src/workflows/billing-tick.ts';
import { failureOf, startBench, type Bench } from '../support/workflow-bench.ts';

let bench: Bench;
let ticks = 0;
beforeAll(async () => {
  bench = await startBench();
});
afterAll(() => bench.close());

function tick(input: Omit<TickInput, 'granularity' | 'zone'>) {
  ticks += 1;
  return bench.env.client.workflow.execute<typeof billingTick>('billingTick', {
    workflowId: `tick-${ticks}`,
    taskQueue: BILLING_TASK_QUEUE,
    args: [{ granularity: 'month', zone: 'UTC', ...input }],
  });
}

describe('billingTick', () => {
  it('takes the period from its argument, not from the clock, and starts billing-<period>', async () => {
    const { world, run } = bench.world(['a']);
    expect(await tick({ namespace: run.namespace, period: run.period })).toEqual({
      period: run.period,
      started: 'started',
    });
    const root = bench.env.client.workflow.getHandle(runWorkflowId(run));
    await root.result();
    expect(world.count('charge')).toBe(1);
    const parent = (await root.describe()).raw.workflowExecutionInfo?.parentExecution?.workflowId;
    expect(parent).toBe(`tick-${ticks}`);
  });

  it('J7, S7: starts one run when it fires twice, also at the same moment and after the run has closed', async () => {
    const { world, run } = bench.world(['a']);
    const input = { namespace: run.namespace, period: run.period };
    const both = await Promise.all([tick(input), tick(input)]);
    expect(both.map((result) => result.started).sort()).toEqual(['alreadyStarted', 'started']);
    await bench.env.client.workflow.getHandle(runWorkflowId(run)).result();
    expect((await tick(input)).started).toBe('alreadyStarted');
    expect(world.count('planRun')).toBe(1);
    expect(world.count('charge')).toBe(1);
  });

  it.each(['2026-13', '2026-2', ' 2026-02', ''])(
    'fails on the period %j and starts nothing',
    async (period) => {
      const { world, run } = bench.world(['a']);
      expect(await failureOf(tick({ namespace: run.namespace, period }))).toBe('PeriodUnknown');
      expect(world.calls).toEqual([]);
    },
  );

  it('fails when it was started by hand and nobody said which period', async () => {
    const { run } = bench.world(['a']);
    expect(await failureOf(tick({ namespace: run.namespace }))).toBe('PeriodUnknown');
  });
});
