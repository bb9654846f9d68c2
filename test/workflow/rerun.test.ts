import { ApplicationFailure } from '@temporalio/common';
import { Worker } from '@temporalio/worker';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { RunRef } from '../../src/domain/ids.ts';
import {
  rerunCustomerSignal,
  rerunCustomerUpdate,
  type RerunMessage,
} from '../../src/workflows/messages.ts';
import { CHARGED, DECLINED, type FakeWorld } from '../support/fakes.ts';
import { slotRef } from '../support/names.ts';
import {
  failureOf,
  startBench,
  until,
  workflowBundle,
  type Bench,
} from '../support/workflow-bench.ts';

let bench: Bench;
beforeAll(async () => {
  bench = await startBench();
});
afterAll(() => bench.close());

const message = (customer: string, requestId: string): RerunMessage => ({
  customerId: slotRef(customer).customerId,
  requestId,
  operator: 'olga',
  reason: 'new card',
});

/**
 * A run with `a` declined and `z` unknown, which holds it open in its settle pause until the test asks
 * for the result and time skips on. From then on `a` can be charged.
 */
async function openRun() {
  const { world, run } = bench.world(['a', 'b', 'z']);
  world.pauses = [3_600_000];
  world.charge = ({ customerId, generation }) => {
    if (customerId === 'z') throw ApplicationFailure.nonRetryable('500', 'InvariantBroken');
    return customerId === 'a' && generation === 1 ? DECLINED : CHARGED;
  };
  const handle = await bench.start(run);
  await until('settling', () => world.moves.includes('settling'));
  return { world, run, handle };
}

describe('rerunCustomer', () => {
  it('C1: charges a declined customer under the next generation when ordered by update', async () => {
    const { world, handle } = await openRun();
    expect(await handle.executeUpdate(rerunCustomerUpdate, { args: [message('a', 'r1')] })).toBe(
      'accepted',
    );
    const totals = await handle.result();
    expect(totals.counts).toMatchObject({ charged: 2, declined: 0, indeterminate: 1 });
    expect(world.slots.get('a')).toMatchObject({ state: 'charged', generation: 2 });
  });

  it('charges a declined customer when ordered by signal', async () => {
    const { world, handle } = await openRun();
    await handle.signal(rerunCustomerSignal, message('a', 'r1'));
    await until('charged', () => world.slots.get('a')?.state === 'charged');
    expect((await handle.result()).counts.charged).toBe(2);
  });

  it('takes two orders with one request id for one', async () => {
    const { world, handle } = await openRun();
    world.charge = () => DECLINED;
    const answers = await Promise.all([
      handle.executeUpdate(rerunCustomerUpdate, { args: [message('a', 'same')] }),
      handle.executeUpdate(rerunCustomerUpdate, { args: [message('a', 'same')] }),
      handle.signal(rerunCustomerSignal, message('a', 'same')),
    ]);
    expect(answers.slice(0, 2)).toEqual(['accepted', 'accepted']);
    await until('declined again', () => world.slots.get('a')?.state === 'declined');
    await handle.result();
    expect(world.slots.get('a')?.generation).toBe(2);
    expect(
      world.calls.filter((call) => call.name === 'charge' && call.generation === 2),
    ).toHaveLength(1);
  });

  it('charges once when two different orders come at the same moment', async () => {
    const { world, handle } = await openRun();
    const answers = await Promise.all(
      ['x', 'y'].map((id) =>
        handle.executeUpdate(rerunCustomerUpdate, { args: [message('a', id)] }),
      ),
    );
    expect(answers).toContain('accepted');
    await handle.result();
    expect(world.slots.get('a')).toMatchObject({ state: 'charged', generation: 2 });
    expect(
      world.calls.filter((call) => call.name === 'charge' && call.generation === 2),
    ).toHaveLength(1);
  });

  it('I16: goes on with its next worker after a crowd of orders that ended in another order than they came', async () => {
    const { world, handle } = await openRun();
    const customers = ['b', 'z', 'stranger', 'a', 'b', 'stranger'];
    const all = Promise.withResolvers<void>();
    const ended = customers.map(() => Promise.withResolvers<void>());
    let entered = 0;
    world.before = async (name) => {
      if (name !== 'decideRerun') return;
      const mine = entered;
      entered += 1;
      if (entered === customers.length) all.resolve();
      await all.promise;
      // The last of them is decided first.
      await ended[mine + 1]?.promise;
      ended[mine]?.resolve();
    };
    await Promise.all(
      customers.map((customer, index) =>
        handle.executeUpdate(rerunCustomerUpdate, { args: [message(customer, `crowd-${index}`)] }),
      ),
    );
    expect((await handle.result()).counts.charged).toBe(2);
    const history = await handle.fetchHistory();
    await Worker.runReplayHistory({ workflowBundle: await workflowBundle() }, history);
  });

  it('I11: answers what is charged, unknown to us or in doubt, and reconciles only the last', async () => {
    const { world, handle } = await openRun();
    const ask = (customer: string) =>
      handle.executeUpdate(rerunCustomerUpdate, { args: [message(customer, `r-${customer}`)] });
    expect(await ask('b')).toBe('alreadyCharged');
    expect(await ask('stranger')).toBe('unknownCustomer');
    expect(await ask('z')).toBe('inDoubt');
    await until('reconciled', () => world.count('reconcile', 'z') === 1);
    await handle.result();
    expect(world.count('charge', 'b')).toBe(1);
    expect(world.count('claimSlot', 'stranger')).toBe(0);
    expect(world.slots.get('z')?.generation).toBe(1);
  });

  it.each<[string, unknown]>([
    ['nothing at all', null],
    ['no customer', { ...message('a', 'r'), customerId: undefined }],
    ['an e-mail for a customer', { ...message('a', 'r'), customerId: 'a@example.com' }],
    ['no request id', { ...message('a', 'r'), requestId: undefined }],
    ['a request id with a space', message('a', 'r 1')],
    ['too long a request id', message('a', 'r'.repeat(129))],
    ['no operator', { ...message('a', 'r'), operator: '' }],
    ['a reason that is no text', { ...message('a', 'r'), reason: 7 }],
    ['a NUL in the reason', { ...message('a', 'r'), reason: 'a\u0000b' }],
    ['a line break in the operator', { ...message('a', 'r'), operator: 'olga\nroot' }],
  ])(
    'refuses %s as an update before it touches anything, and drops it as a signal',
    async (_what, bad) => {
      const { world, handle } = await openRun();
      const sent = handle.executeUpdate('rerunCustomerUpdate', { args: [bad] });
      await expect(sent).rejects.toMatchObject({ cause: { type: 'InvalidMessage' } });
      await handle.signal('rerunCustomer', bad);
      expect((await handle.result()).counts.charged).toBe(1);
      expect(world.count('decideRerun')).toBe(0);
    },
  );

  it('does not fail the run when the database refuses one order for good', async () => {
    const { world, handle } = await openRun();
    world.before = (name) => {
      if (name === 'decideRerun')
        throw ApplicationFailure.nonRetryable('used before', 'InvalidMessage');
    };
    await handle.signal(rerunCustomerSignal, message('a', 'r1'));
    const sent = handle.executeUpdate(rerunCustomerUpdate, { args: [message('a', 'r1')] });
    await expect(sent).rejects.toMatchObject({
      cause: { type: 'InvalidMessage', message: 'used before' },
    });
    expect((await handle.result()).counts.declined).toBe(1);
  });

  it('serves an order that comes while the run is closing, instead of dropping it', async () => {
    const { world, handle } = await openRun();
    let orders = 0;
    world.before = async (name) => {
      if (name !== 'moveRun.completed' || orders > 0) return;
      orders += 1;
      await handle.signal(rerunCustomerSignal, message('a', 'late'));
    };
    await handle.result();
    expect(orders).toBe(1);
    expect(world.slots.get('a')).toMatchObject({ state: 'charged', generation: 2 });
  });
});

describe('a rerun after the run has closed', () => {
  /** Starts the root as a late rerun does, and gives the order. */
  async function late(run: RunRef, order: RerunMessage) {
    const handle = await bench.start(run, { onlyReruns: true });
    await handle.signal(rerunCustomerSignal, order);
    return handle;
  }
  const uncharged = (world: FakeWorld) =>
    world.customers.filter((id) => world.slots.get(id)?.state !== 'charged');

  it('charges its customer and nobody else', async () => {
    const { world, run } = bench.world(['a', 'b']);
    world.state = 'completed';
    world.slots.set('a', { state: 'declined', generation: 1, reason: 'x' });
    world.slots.set('b', { state: 'declined', generation: 1, reason: 'x' });
    const handle = await late(run, message('a', 'r'));
    expect((await handle.result()).counts).toMatchObject({ charged: 1, declined: 1 });
  });

  it('does not go on with a run that was stopped', async () => {
    const { world, run } = bench.world(['a', 'b', 'c']);
    world.state = 'stopped';
    world.slots.set('a', { state: 'declined', generation: 1, reason: 'x' });
    const handle = await late(run, message('a', 'r'));
    expect((await handle.result()).counts.charged).toBe(1);
    expect(uncharged(world)).toEqual(['b', 'c']);
    expect(world.state).toBe('stopped');
  });

  it('does not go on with a run that was cut off, and leaves the period startable', async () => {
    const { world, run } = bench.world(['a', 'b', 'c']);
    world.state = 'charging';
    world.slots.set('a', { state: 'declined', generation: 1, reason: 'x' });
    const handle = await late(run, message('a', 'r'));
    expect(await failureOf(handle.result())).toBe('RunInterrupted');
    expect(uncharged(world)).toEqual(['b', 'c']);
    expect((await (await bench.start(run)).result()).counts.charged).toBe(3);
  });

  it('does not begin a period that was never billed, and leaves it startable', async () => {
    const { world, run } = bench.world(['a', 'b']);
    world.answers.set('r', 'unknownCustomer');
    const handle = await late(run, message('a', 'r'));
    expect(await failureOf(handle.result())).toBe('RunNotPlanned');
    expect(world.count('claimSlot')).toBe(0);
    expect(world.count('planRun')).toBe(0);
    expect((await (await bench.start(run)).result()).counts.charged).toBe(2);
  });
});
