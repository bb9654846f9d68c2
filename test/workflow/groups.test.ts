import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { groupWorkflowId, shardWorkflowId } from '../../src/domain/ids.ts';
import { pauseRunUpdate, resumeRunUpdate } from '../../src/workflows/messages.ts';
import { CHARGED } from '../support/fakes.ts';
import { gate, startBench, until, type Bench } from '../support/workflow-bench.ts';

let bench: Bench;
beforeAll(async () => {
  bench = await startBench();
});
afterAll(() => bench.close());

const order = { operator: 'olga', reason: 'a look' };

describe('a run of more customers than one level of shards can hold', () => {
  it('works through groups of shards, and passes an order on to the customers at the bottom', async () => {
    // 80 customers at the first places, and room for a quarter of a million.
    const { world, run } = bench.world(
      Array.from({ length: 80 }, (_, i) => `g${String(i).padStart(3, '0')}`),
    );
    world.places = 250_001;
    const hold = gate();
    world.charge = async () => {
      await hold.opened;
      return CHARGED;
    };
    const handle = await bench.start(run);
    await until('a full window', () => world.count('charge') === 50);
    await handle.executeUpdate(pauseRunUpdate, { args: [order] });
    hold.open();
    await until('all in flight recorded', () => world.count('record') === 50);
    // Those that had begun may still read their list; no further one begins.
    let read = -1;
    await until('no shard reads', async () => {
      if (read === world.count('listShard')) return true;
      read = world.count('listShard');
      await new Promise((resolve) => setTimeout(resolve, 500));
      return false;
    });
    expect(read).toBeLessThan(501);
    expect(world.count('claimSlot')).toBe(50);
    await handle.executeUpdate(resumeRunUpdate, { args: [order] });
    const totals = await handle.result();
    expect(totals.counts.charged).toBe(80);
    expect(world.count('charge')).toBe(80);
    expect(world.count('listShard')).toBe(501);
    const { client } = bench.env;
    const group = await client.workflow.getHandle(groupWorkflowId(run, 1, 0)).fetchHistory();
    expect(group.events?.length).toBeLessThan(5_000);
    expect(
      (await client.workflow.getHandle(shardWorkflowId(run, 500)).describe()).status.name,
    ).toBe('COMPLETED');
  }, 120_000);
});
