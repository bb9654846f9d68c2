import { afterEach, describe, expect, it } from 'vitest';
import { expectChargedOnce, killAll, startWorld } from '../support/chaos.ts';

afterEach(killAll);

describe('the Temporal server lost its memory', () => {
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
