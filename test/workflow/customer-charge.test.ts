import { ApplicationFailure } from '@temporalio/common';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { customerWorkflowId } from '../../src/domain/ids.ts';
import { CHARGED, DECLINED, lost } from '../support/fakes.ts';
import { slotRef } from '../support/names.ts';
import { startBench, type Bench } from '../support/workflow-bench.ts';

let bench: Bench;
beforeAll(async () => {
  bench = await startBench();
});
afterAll(() => bench.close());

describe('customerCharge', () => {
  it('claims, charges and records once when nothing goes wrong', async () => {
    const { world, run } = bench.world(['a']);
    const totals = await (await bench.start(run)).result();
    expect(totals.counts.charged).toBe(1);
    expect(['claimSlot', 'charge', 'record'].map((name) => world.count(name))).toEqual([1, 1, 1]);
  });

  it('B1: keeps the generation, and so the key, over every retry of a lost reply', async () => {
    const { world, run } = bench.world(['a']);
    world.charge = ({ call }) => {
      if (call < 4) throw lost();
      return CHARGED;
    };
    const totals = await (await bench.start(run)).result();
    expect(totals.counts.charged).toBe(1);
    const charges = world.calls.filter((call) => call.name === 'charge');
    expect(charges.map((call) => [call.generation, call.attempt])).toEqual([
      [1, 1],
      [1, 2],
      [1, 3],
      [1, 4],
    ]);
  });

  it('returns a decline instead of failing', async () => {
    const { world, run } = bench.world(['a', 'b']);
    world.charge = ({ customerId }) => (customerId === 'a' ? DECLINED : CHARGED);
    const totals = await (await bench.start(run)).result();
    expect(totals.counts).toMatchObject({ declined: 1, charged: 1 });
    expect(world.count('charge', 'a')).toBe(1);
    const child = bench.env.client.workflow.getHandle(customerWorkflowId(slotRef('a', run)));
    expect((await child.describe()).status.name).toBe('COMPLETED');
    expect(await child.result()).toEqual({
      outcome: 'declined',
      reason: 'insufficient_funds',
      stopsRun: false,
    });
  });

  it('M19: tries a failing record again by itself and never charges again for it', async () => {
    const { world, run } = bench.world(['a']);
    world.before = (name, call) => {
      if (name === 'record' && call <= 3) {
        throw ApplicationFailure.create({ type: 'DatabaseUnavailable', message: 'away' });
      }
    };
    const totals = await (await bench.start(run)).result();
    expect(totals.counts.charged).toBe(1);
    expect(world.count('record')).toBe(4);
    expect(world.count('charge')).toBe(1);
  });

  it('M13: records unknown, not declined, when the retries are spent, and asks Stripe in a settle round', async () => {
    const { world, run } = bench.world(['a']);
    world.charge = () => {
      throw lost();
    };
    world.reconcile = () => ({
      kind: 'settled',
      charge: { generation: 1, result: CHARGED, answer: null },
    });
    const states: string[] = [];
    world.before = (name) => {
      if (name === 'reconcile') states.push(world.slots.get('a')?.state ?? '');
    };
    const totals = await (await bench.start(run)).result();
    expect(world.count('charge')).toBe(8);
    expect(states).toEqual(['indeterminate']);
    expect(totals.counts.charged).toBe(1);
    expect(world.slots.get('a')).toMatchObject({ state: 'charged', generation: 1 });
  });

  it('S3: is unknown when the worker stops beating in the middle of a charge, then charged by a look-up', async () => {
    const { world, run } = bench.world(['a']);
    const never = Promise.withResolvers<never>();
    world.charge = ({ call }) => {
      if (call === 1) return never.promise;
      throw ApplicationFailure.nonRetryable('a broken row', 'InvariantBroken');
    };
    world.reconcile = () => ({
      kind: 'settled',
      charge: { generation: 1, result: CHARGED, answer: null },
    });
    const totals = await (await bench.start(run)).result();
    never.reject(new Error('the zombie ends'));
    expect(world.count('charge')).toBe(2);
    expect(world.count('reconcile')).toBe(1);
    expect(totals.counts.charged).toBe(1);
  }, 40_000);

  it('charges again with the same generation where reconcile shows that nothing happened', async () => {
    const { world, run } = bench.world(['a']);
    world.charge = ({ call }) => {
      if (call <= 8) throw lost();
      return CHARGED;
    };
    world.reconcile = () => ({ kind: 'resumable', generation: 1, because: 'sameKey' });
    const totals = await (await bench.start(run)).result();
    expect(totals.counts.charged).toBe(1);
    expect(
      new Set(world.calls.filter((call) => call.name === 'charge').map((call) => call.generation)),
    ).toEqual(new Set([1]));
  });

  it('M20: stays unknown while the look-up fails, and sends nothing', async () => {
    const { world, run } = bench.world(['a']);
    world.charge = () => {
      throw lost();
    };
    world.reconcile = () => {
      throw lost();
    };
    const totals = await (await bench.start(run)).result();
    expect(totals.counts.indeterminate).toBe(1);
    expect(world.count('charge')).toBe(8);
    expect(world.count('reconcile')).toBe(2 * 4);
  });

  it('does not ask again about a slot that was declined, skipped or charged before', async () => {
    const { world, run } = bench.world(['a', 'b', 'c']);
    world.slots.set('a', { state: 'declined', generation: 1, reason: 'lost_card' });
    world.slots.set('b', { state: 'skipped', generation: 1, reason: 'nothing_due' });
    world.slots.set('c', { state: 'charged', generation: 1, reason: null });
    const totals = await (await bench.start(run)).result();
    expect(totals.counts).toMatchObject({ declined: 1, skipped: 1, charged: 1 });
    expect(world.count('charge')).toBe(0);
    expect(world.count('reconcile')).toBe(0);
  });

  it('waits for the database instead of failing when the claim cannot be written', async () => {
    const { world, run } = bench.world(['a']);
    world.before = (name, call) => {
      if (name === 'claimSlot' && call <= 3) {
        throw ApplicationFailure.create({ type: 'DatabaseUnavailable', message: 'away' });
      }
    };
    const totals = await (await bench.start(run)).result();
    expect(totals.counts.charged).toBe(1);
    expect(world.count('charge')).toBe(1);
  });
});
