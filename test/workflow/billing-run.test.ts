import { ApplicationFailure } from '@temporalio/common';
import type { WorkflowHandle } from '@temporalio/client';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ChargeOutcome } from '../../src/domain/charge.ts';
import type { billingRun } from '../../src/workflows/billing-run.ts';
import {
  pauseRunUpdate,
  progressQuery,
  resumeRunUpdate,
  stopRunUpdate,
} from '../../src/workflows/messages.ts';
import { CHARGED, lost } from '../support/fakes.ts';
import {
  failureOf,
  gate,
  people,
  startBench,
  until,
  type Bench,
} from '../support/workflow-bench.ts';

let bench: Bench;
beforeAll(async () => {
  bench = await startBench();
});
afterAll(() => bench.close());

const order = { operator: 'olga', reason: 'a look at the numbers' };
const progress = (handle: WorkflowHandle<typeof billingRun>) => handle.query(progressQuery);

/** Virtual milliseconds from start to close. */
async function lasted(handle: WorkflowHandle<typeof billingRun>): Promise<number> {
  const { startTime, closeTime } = await handle.describe();
  return (closeTime?.getTime() ?? Number.NaN) - startTime.getTime();
}

describe('billingRun', () => {
  it('charges everybody once through shards and closes with the counts of the database', async () => {
    const { world, run } = bench.world(people(505));
    const totals = await (await bench.start(run)).result();
    expect(totals).toMatchObject({ customers: 505, open: 0, counts: { charged: 505 } });
    expect(world.count('listShard')).toBe(2);
    expect(world.count('charge')).toBe(505);
    expect(world.moves).toEqual(['charging', 'completed']);
  }, 60_000);

  it('lets one failing customer fail neither its shard nor the run, and leaves it open, not forgotten', async () => {
    const { world, run } = bench.world(people(6));
    world.before = (name) => {
      const last = world.calls.at(-1);
      if (name === 'claimSlot' && last?.customerId === 'c0002') {
        throw ApplicationFailure.nonRetryable('a row that nobody can explain', 'InvariantBroken');
      }
    };
    const totals = await (await bench.start(run)).result();
    expect(totals).toMatchObject({ open: 1, counts: { charged: 5 } });
    // Once in the shard and once in each settle round.
    expect(world.count('claimSlot', 'c0002')).toBe(3);
  });

  it('goes on with the others when more customers fail than have room at once', async () => {
    const { world, run } = bench.world(people(52));
    world.pauses = [];
    world.before = (name) => {
      if (name === 'claimSlot') throw ApplicationFailure.nonRetryable('no row', 'InvariantBroken');
    };
    const handle = await bench.start(run);
    // A window of 50: a failed customer that kept its place would keep the last two out.
    await expect.poll(() => world.count('claimSlot'), { timeout: 40_000 }).toBe(52);
    expect((await handle.result()).open).toBe(52);
  });

  it('pauses as RECONCILE_PAUSES says, and leaves unknown what stays unknown', async () => {
    const { world, run } = bench.world(people(2));
    world.pauses = [60_000, 300_000, 6 * 3_600_000];
    world.charge = ({ customerId }) => {
      if (customerId === 'c0000') throw ApplicationFailure.nonRetryable('500', 'InvariantBroken');
      return CHARGED;
    };
    const handle = await bench.start(run);
    const totals = await handle.result();
    expect(totals.counts).toMatchObject({ indeterminate: 1, charged: 1 });
    expect(world.count('reconcile')).toBe(3);
    expect(await lasted(handle)).toBeGreaterThanOrEqual(6 * 3_600_000 + 360_000);
    expect(world.moves).toEqual(['charging', 'settling', 'completed']);
  });

  it('serves only reruns when it is started again after it completed', async () => {
    const { world, run } = bench.world(people(3));
    world.state = 'completed';
    for (const id of world.customers)
      world.slots.set(id, { state: 'charged', generation: 1, reason: null });
    const totals = await (await bench.start(run)).result();
    expect(totals.counts.charged).toBe(3);
    expect(world.count('claimSlot')).toBe(0);
    expect(world.count('charge')).toBe(0);
  });

  it('goes through its plan again when it was cut off, and charges only who is left', async () => {
    const { world, run } = bench.world(people(3));
    world.state = 'charging';
    world.slots.set('c0000', { state: 'charged', generation: 1, reason: null });
    world.slots.set('c0001', { state: 'sent', generation: 1, reason: null });
    const totals = await (await bench.start(run)).result();
    expect(totals.counts.charged).toBe(3);
    expect(['c0000', 'c0001', 'c0002'].map((id) => world.count('charge', id))).toEqual([0, 1, 1]);
  });

  it('fails, and can be started again, when there is nobody to bill', async () => {
    const { world, run } = bench.world([]);
    world.before = (name) => {
      if (name === 'planRun') throw ApplicationFailure.nonRetryable('nobody', 'NoCustomers');
    };
    const handle = await bench.start(run);
    expect(await failureOf(handle.result())).toBe('NoCustomers');
    world.before = () => {};
    expect((await (await bench.start(run)).result()).customers).toBe(0);
  });
});

describe('an operator', () => {
  it('pauses new customers while those in flight finish, and is told on resume how many charges follow', async () => {
    const { world, run } = bench.world(people(80));
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
    expect(await progress(handle)).toMatchObject({
      phase: 'paused',
      note: 'paused by olga: a look at the numbers',
    });
    expect(world.count('claimSlot')).toBe(50);
    const answer = await handle.executeUpdate(resumeRunUpdate, { args: [order] });
    expect(answer).toEqual({ chargesToFire: 30 });
    expect((await handle.result()).counts.charged).toBe(80);
    expect(world.orders).toEqual(['run.paused by olga', 'run.resumed by olga']);
  }, 60_000);

  it('stops the run for good: nobody new is started, and it ends with its counts', async () => {
    const { world, run } = bench.world(people(80));
    const hold = gate();
    world.charge = async () => {
      await hold.opened;
      return CHARGED;
    };
    const handle = await bench.start(run);
    await until('a full window', () => world.count('charge') === 50);
    await handle.executeUpdate(stopRunUpdate, { args: [order] });
    hold.open();
    const totals = await handle.result();
    expect(totals).toMatchObject({ open: 30, counts: { charged: 50 } });
    expect(world.count('claimSlot')).toBe(50);
    expect(world.moves).toEqual(['charging', 'stopped']);
  }, 60_000);

  it('goes on after a stop when it is started again: whoever is left is charged, and nobody again', async () => {
    const { world, run } = bench.world(people(80));
    const hold = gate();
    world.charge = async () => {
      await hold.opened;
      return CHARGED;
    };
    const stopped = await bench.start(run);
    await until('a full window', () => world.count('charge') === 50);
    await stopped.executeUpdate(stopRunUpdate, { args: [order] });
    hold.open();
    await stopped.result();
    const totals = await (await bench.start(run)).result();
    expect(totals).toMatchObject({ open: 0, counts: { charged: 80 } });
    expect(world.count('charge')).toBe(80);
    expect(world.count('reconcile')).toBe(0);
  }, 60_000);

  it('stops a run at once that waits hours for its next settle round', async () => {
    const { world, run } = bench.world(people(1));
    world.pauses = [6 * 3_600_000];
    world.charge = () => {
      throw ApplicationFailure.nonRetryable('500', 'InvariantBroken');
    };
    const handle = await bench.start(run);
    await until('settling', () => world.moves.includes('settling'));
    await handle.executeUpdate(stopRunUpdate, { args: [order] });
    await handle.result();
    expect(await lasted(handle)).toBeLessThan(3_600_000);
    expect(world.count('reconcile')).toBe(0);
  });

  it('stops a settle round in the middle', async () => {
    const { world, run } = bench.world(people(60));
    for (const id of world.customers)
      world.slots.set(id, { state: 'indeterminate', generation: 1, reason: 'x' });
    world.state = 'completed';
    world.pauses = [1_000];
    const hold = gate();
    world.reconcile = async () => {
      await hold.opened;
      return { kind: 'unknown', reason: 'x', because: 'cannotTell' };
    };
    const handle = await bench.start(run);
    const result = handle.result();
    await until('a full window', () => world.count('reconcile') === 25);
    await handle.executeUpdate(stopRunUpdate, { args: [order] });
    hold.open();
    await result;
    expect(world.count('reconcile')).toBe(25);
  }, 30_000);

  it('has the last word: a resume that is slower than the stop after it does not undo it', async () => {
    const { world, run } = bench.world(people(80));
    const hold = gate();
    const slowLog = gate();
    world.charge = async () => {
      await hold.opened;
      return CHARGED;
    };
    const handle = await bench.start(run);
    await until('a full window', () => world.count('charge') === 50);
    await handle.executeUpdate(pauseRunUpdate, { args: [order] });
    world.before = async (name, call) => {
      if (name === 'logOrder' && call === 2) await slowLog.opened;
    };
    const resumed = handle.executeUpdate(resumeRunUpdate, { args: [order] });
    await until('the resume is being logged', () => world.count('logOrder') === 2);
    await handle.executeUpdate(stopRunUpdate, { args: [order] });
    slowLog.open();
    await expect(resumed).rejects.toMatchObject({ cause: { type: 'InvalidMessage' } });
    hold.open();
    expect((await handle.result()).counts.charged).toBe(50);
    expect(world.moves.at(-1)).toBe('stopped');
  }, 60_000);

  it('is not undone in the row by a resume that is slower than the pause after it', async () => {
    const { world, run } = bench.world(people(80));
    const hold = gate();
    const slowLog = gate();
    world.charge = async () => {
      await hold.opened;
      return CHARGED;
    };
    const handle = await bench.start(run);
    await until('a full window', () => world.count('charge') === 50);
    await handle.executeUpdate(pauseRunUpdate, { args: [order] });
    world.before = async (name, call) => {
      if (name === 'logOrder' && call === 2) await slowLog.opened;
    };
    const resumed = handle.executeUpdate(resumeRunUpdate, { args: [order] });
    await until('the resume is being logged', () => world.count('logOrder') === 2);
    await handle.executeUpdate(pauseRunUpdate, { args: [order] });
    slowLog.open();
    await expect(resumed).rejects.toMatchObject({ cause: { type: 'InvalidMessage' } });
    // The sweep goes by the row, which keeps what was written last.
    expect(world.orders.at(-1)).toBe('run.paused by olga');
    hold.open();
    await handle.executeUpdate(stopRunUpdate, { args: [order] });
    await handle.result();
  }, 60_000);

  it.each([
    ['without an operator', { operator: '', reason: 'x' }],
    ['with a blank reason', { operator: 'olga', reason: '  ' }],
    ['with a NUL', { operator: 'olga', reason: 'a\u0000b' }],
    ['with too long a reason', { operator: 'olga', reason: 'x'.repeat(501) }],
  ])('is refused an order %s, which then leaves no trace', async (_what, bad) => {
    const { world, run } = bench.world(people(1));
    const hold = gate();
    world.charge = async () => {
      await hold.opened;
      return CHARGED;
    };
    const handle = await bench.start(run);
    await until('charging', () => world.count('charge') === 1);
    for (const update of [pauseRunUpdate, stopRunUpdate]) {
      await expect(handle.executeUpdate(update, { args: [bad] })).rejects.toMatchObject({
        cause: { type: 'InvalidMessage' },
      });
    }
    expect((await progress(handle)).phase).toBe('charging');
    hold.open();
    await handle.result();
    expect(world.orders).toEqual([]);
  });
});

describe('a refused API key', () => {
  it('pauses the run, and a resume goes on where it was', async () => {
    const { world, run } = bench.world(people(120));
    const refused: ChargeOutcome = {
      outcome: 'misconfigured',
      reason: 'api_key_refused',
      advice: '',
      stopsRun: true,
    };
    let good = false;
    world.charge = () => (good ? CHARGED : refused);
    const handle = await bench.start(run);
    await until('paused', async () => (await progress(handle)).phase === 'paused');
    await until(
      'all in flight reported',
      async () => (await progress(handle)).finished === world.count('claimSlot'),
    );
    const stopped = world.count('claimSlot');
    expect(stopped).toBeLessThan(120);
    expect((await progress(handle)).note).toContain('api_key_refused');
    good = true;
    await handle.executeUpdate(resumeRunUpdate, { args: [order] });
    const totals = await handle.result();
    expect(totals.counts).toMatchObject({ misconfigured: stopped, charged: 120 - stopped });
  }, 60_000);

  it('pauses a settle round too, instead of refusing whoever is left one after the other', async () => {
    const { world, run } = bench.world(people(80));
    for (const id of world.customers)
      world.slots.set(id, { state: 'indeterminate', generation: 1, reason: 'x' });
    world.state = 'completed';
    world.pauses = [1_000];
    const refused: ChargeOutcome = {
      outcome: 'misconfigured',
      reason: 'api_key_refused',
      advice: '',
      stopsRun: true,
    };
    let good = false;
    world.reconcile = () => ({ kind: 'resumable', generation: 1, because: 'sameKey' });
    world.charge = () => (good ? CHARGED : refused);
    const handle = await bench.start(run);
    await until('paused', async () => (await progress(handle)).phase === 'paused');
    good = true;
    let ended = false;
    const result = handle.result().finally(() => (ended = true));
    // Refusals that were on their way may pause it once more.
    await until('the end', async () => {
      if (!ended && (await progress(handle)).phase === 'paused') {
        await handle.executeUpdate(resumeRunUpdate, { args: [order] });
      }
      return ended;
    });
    const totals = await result;
    expect(totals.counts.misconfigured).toBeGreaterThan(0);
    expect(totals.counts.misconfigured).toBeLessThanOrEqual(25);
    expect(totals.counts.charged).toBe(80 - totals.counts.misconfigured);
  }, 60_000);
});

describe('a lost reply that the retries could not mend', () => {
  it('is settled within the run, with reruns and pauses in between', async () => {
    const { world, run } = bench.world(people(40));
    world.charge = ({ customerId, call }) => {
      if (Number(customerId.slice(1)) % 10 === 0 && call <= 8) throw lost();
      return CHARGED;
    };
    world.reconcile = () => ({ kind: 'resumable', generation: 1, because: 'sameKey' });
    const totals = await (await bench.start(run)).result();
    expect(totals).toMatchObject({ open: 0, counts: { charged: 40 } });
    expect(world.count('reconcile')).toBe(4);
  });
});
