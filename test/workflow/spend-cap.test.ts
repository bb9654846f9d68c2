import type { WorkflowHandle } from '@temporalio/client';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ChargeOutcome } from '../../src/domain/charge.ts';
import type { billingRun } from '../../src/workflows/billing-run.ts';
import { progressQuery, resumeRunUpdate, stopRunUpdate } from '../../src/workflows/messages.ts';
import { CHARGED } from '../support/fakes.ts';
import { people, startBench, until, type Bench } from '../support/workflow-bench.ts';

const order = { operator: 'olga', reason: 'the cap was raised' };
const BLOCKED: ChargeOutcome = {
  outcome: 'blocked',
  reason: 'spend_cap_exceeded',
  advice: 'raise_cap',
};

let bench: Bench;
beforeAll(async () => {
  bench = await startBench();
}, 60_000);
afterAll(() => bench.close());

const progress = (handle: WorkflowHandle<typeof billingRun>) => handle.query(progressQuery);

async function untilPaused(handle: WorkflowHandle<typeof billingRun>): Promise<void> {
  await until('paused', async () => (await progress(handle)).phase === 'paused');
}

describe('a spend cap that is used up', () => {
  it('pauses the run, and bills the blocked ones under their old generation when it is resumed', async () => {
    const { world, run } = bench.world(people(120));
    let room = 30;
    world.charge = () => {
      if (room === 0) return BLOCKED;
      room -= 1;
      return CHARGED;
    };
    const handle = await bench.start(run);
    await untilPaused(handle);
    await until(
      'all in flight reported',
      async () => (await progress(handle)).finished === world.count('claimSlot'),
    );
    expect(world.count('claimSlot')).toBeLessThan(120);
    expect((await progress(handle)).note).toMatch(/spend_cap_exceeded.*raise/);
    room = 120;
    await handle.executeUpdate(resumeRunUpdate, { args: [order] });
    const totals = await handle.result();
    expect(totals.counts).toMatchObject({ charged: 120, blocked: 0 });
    expect([...world.slots.values()].every(({ generation }) => generation === 1)).toBe(true);
  }, 60_000);

  it('keeps the run open while it is paused, when those whom it refused are the last ones', async () => {
    const { world, run } = bench.world(people(3));
    world.pauses = [6 * 3_600_000];
    let raised = false;
    world.charge = () => (raised ? CHARGED : BLOCKED);
    const handle = await bench.start(run);
    await untilPaused(handle);
    await until('all three refused', () => world.count('record') === 3);
    await bench.env.sleep('2 hours');
    expect(world.moves).not.toContain('completed');
    raised = true;
    expect(await handle.executeUpdate(resumeRunUpdate, { args: [order] })).toEqual({
      chargesToFire: 3,
    });
    expect((await handle.result()).counts).toMatchObject({ charged: 3, blocked: 0 });
    // Not after a pause of six hours: somebody has just said that they may go.
    const { startTime, closeTime } = await handle.describe();
    expect((closeTime?.getTime() ?? Number.NaN) - startTime.getTime()).toBeLessThan(5 * 3_600_000);
  }, 60_000);

  it('bills whom the last settle round has passed when it is resumed in the middle of that round', async () => {
    const { world, run } = bench.world(people(40));
    world.pauses = [60_000];
    const unknown: ChargeOutcome = {
      outcome: 'indeterminate',
      reason: 'lost',
      advice: 'reconcile',
    };
    let answer: ChargeOutcome = unknown;
    world.charge = () => answer;
    world.reconcile = () => ({ kind: 'resumable', generation: 1, because: 'sameKey' });
    const handle = await bench.start(run);
    await until('all unknown', () => world.count('record') === 40);
    answer = BLOCKED;
    await bench.env.sleep('2 minutes');
    await untilPaused(handle);
    // A window of them is refused, and the others wait in the round.
    const refused = () =>
      [...world.slots.values()].filter(({ state }) => state === 'blocked').length;
    await until('a window refused', () => refused() === 25);
    answer = CHARGED;
    await handle.executeUpdate(resumeRunUpdate, { args: [order] });
    expect((await handle.result()).counts).toMatchObject({ charged: 40, blocked: 0 });
  }, 60_000);

  it('pauses again, and charges nobody, when it is resumed without room', async () => {
    const { world, run } = bench.world(people(3));
    world.charge = () => BLOCKED;
    const handle = await bench.start(run);
    await untilPaused(handle);
    await until('all three refused', () => world.count('record') === 3);
    await handle.executeUpdate(resumeRunUpdate, { args: [order] });
    await until('all three refused again', () => world.count('record') === 6);
    await untilPaused(handle);
    await handle.executeUpdate(stopRunUpdate, { args: [order] });
    expect((await handle.result()).counts).toMatchObject({ charged: 0, blocked: 3 });
    expect(world.moves.at(-1)).toBe('stopped');
  }, 60_000);
});
