import { afterEach, describe, expect, it } from 'vitest';
import { expectChargedOnce, killAll, repeatedSends, startWorld } from '../support/chaos.ts';

afterEach(killAll);

describe('answers and histories are lost', () => {
  it('the reply of every third confirm is lost after Stripe has charged: the truth is found, once each', async () => {
    const customers = 60;
    const world = await startWorld({
      customers,
      chargesPerSecond: 0,
      simulator: {
        faults: {
          seed: 7,
          rules: [
            { id: 'lost', endpoint: 'payment_intents.confirm', kind: 'actThenDrop', rate: 0.34 },
          ],
        },
      },
    });
    await world.startWorker();
    await world.startRun();
    await world.completes(90_000);
    const lost = world.simulator.counters().faults.find((fault) => fault.id === 'lost');
    expect(lost?.fired).toBeGreaterThan(customers / 5);
    expect(repeatedSends(world.simulator)).toBeGreaterThan(0);
    await expectChargedOnce(world, customers);
  });

  it('every history is lost: the period started again on a new server charges only who was not charged', async () => {
    const customers = 60;
    const world = await startWorld({ customers, chargesPerSecond: 20, forgetful: true });
    const first = await world.startWorker();
    await world.startRun();
    await world.reaches(20);
    await world.temporal.kill();
    await first.kill();
    const before = await world.charged();
    expect(before).toBeLessThan(customers * 0.9);
    await world.temporal.start();
    await world.startWorker();
    await world.startRun();
    await world.completes(90_000);
    await expectChargedOnce(world, customers);

    // Completed, forgotten again, and started a third time: the slots are what holds.
    const sends = world.simulator.requests().length;
    await world.temporal.kill();
    await world.temporal.start();
    await world.startRun();
    await world.completes(60_000);
    await expectChargedOnce(world, customers);
    const posts = world.simulator.requests(sends).filter((request) => request.method === 'POST');
    expect(posts).toEqual([]);
  });
});
