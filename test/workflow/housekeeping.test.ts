import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { BILLING_TASK_QUEUE, HOUSEKEEPING_ID } from '../../src/domain/ids.ts';
import type { SweepReport } from '../../src/domain/sweep.ts';
import type { housekeeping } from '../../src/workflows/housekeeping.ts';
import { CHARGED, type FakeWorld } from '../support/fakes.ts';
import { startBench, type Bench } from '../support/workflow-bench.ts';

let bench: Bench;
beforeAll(async () => {
  bench = await startBench();
});
afterAll(() => bench.close());

let passes = 0;
async function sweep(): Promise<SweepReport> {
  passes += 1;
  return bench.env.client.workflow.execute<typeof housekeeping>('housekeeping', {
    workflowId: `${HOUSEKEEPING_ID}-${passes}`,
    taskQueue: BILLING_TASK_QUEUE,
    args: [],
  });
}

/** Slots that a run has left in doubt. */
function inDoubt(...customers: string[]): FakeWorld {
  const { world } = bench.world(customers);
  for (const id of customers) {
    world.slots.set(id, { state: 'indeterminate', generation: 1, reason: 'lost' });
  }
  return world;
}

const found = {
  kind: 'settled',
  charge: { generation: 1, result: CHARGED, answer: null },
} as const;

describe('housekeeping', () => {
  it('purges, looks at every open slot and notes what it did', async () => {
    const world = inDoubt('a', 'b', 'c');
    world.reconcile = (customer) =>
      customer === 'b'
        ? { kind: 'unknown', reason: 'processing', because: 'stillProcessing' }
        : found;
    expect(await sweep()).toEqual({ looked: 3, settled: 2, leftOpen: 1, purged: 3 });
    expect(world.sweeps).toEqual([{ looked: 3, settled: 2, leftOpen: 1, purged: 3 }]);
    expect(world.slots.get('a')?.state).toBe('charged');
    expect(world.slots.get('b')?.state).toBe('indeterminate');
  });

  it('goes on with the same key where Stripe shows that nothing happened', async () => {
    const world = inDoubt('a');
    world.reconcile = () => ({ kind: 'resumable', generation: 1, because: 'sameKey' });
    expect(await sweep()).toMatchObject({ looked: 1, settled: 1 });
    expect(world.count('charge', 'a')).toBe(1);
  });

  it('only reads, and sends nothing, for a run that was paused or stopped', async () => {
    const world = inDoubt('a', 'b');
    world.held = true;
    world.reconcile = (customer) =>
      customer === 'a' ? found : { kind: 'resumable', generation: 1, because: 'sameKey' };
    expect(await sweep()).toMatchObject({ looked: 2, settled: 1, leftOpen: 1 });
    expect(world.count('look')).toBe(2);
    expect(['claimSlot', 'charge', 'reconcile'].map((name) => world.count(name))).toEqual([
      0, 0, 0,
    ]);
    expect(world.slots.get('a')?.state).toBe('charged');
  });

  it('sends no more for a run that is paused while the sweep goes through it', async () => {
    const many = Array.from({ length: 40 }, (_, i) => `p${String(i).padStart(2, '0')}`);
    const world = inDoubt(...many);
    world.reconcile = () => ({ kind: 'resumable', generation: 1, because: 'sameKey' });
    world.charge = () => {
      world.held = true;
      return CHARGED;
    };
    expect(await sweep()).toMatchObject({ looked: 40 });
    // Those under way when the order came, and nobody after them.
    expect(world.count('charge')).toBeLessThanOrEqual(20);
    expect(world.count('look')).toBeGreaterThanOrEqual(20);
  });

  it('sends no more once Stripe has refused the key', async () => {
    const many = Array.from({ length: 40 }, (_, i) => `k${String(i).padStart(2, '0')}`);
    const world = inDoubt(...many);
    world.reconcile = () => ({ kind: 'resumable', generation: 1, because: 'sameKey' });
    world.charge = () => ({
      outcome: 'misconfigured',
      reason: 'api_key_refused',
      advice: '',
      stopsRun: true,
    });
    await sweep();
    // Those under way when the refusal came, and nobody after them.
    expect(world.count('charge')).toBeLessThanOrEqual(20);
    expect(world.count('look')).toBeGreaterThanOrEqual(20);
  });

  it('does nothing but purge when nobody is open', async () => {
    const world = inDoubt();
    expect(await sweep()).toEqual({ looked: 0, settled: 0, leftOpen: 0, purged: 3 });
    expect(world.count('claimSlot')).toBe(0);
  });
});
