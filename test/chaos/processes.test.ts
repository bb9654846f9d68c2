import { afterEach, describe, expect, it } from 'vitest';
import { setTimeout as sleep } from 'node:timers/promises';
import { HEARTBEAT_TIMEOUT_MS } from '../../src/domain/timeouts.ts';
import { waitFor } from '../support/cli.ts';
import { expectChargedOnce, killAll, repeatedSends, startWorld } from '../support/chaos.ts';

afterEach(killAll);

describe('a worker that was frozen', () => {
  it('wakes up beside its successor after its heartbeat time-out: one charge each', async () => {
    const customers = 30;
    const world = await startWorld({
      customers,
      chargesPerSecond: 20,
      // Five creates are at work for longer than the freeze takes to be noticed, so that there is
      // something to take over.
      simulator: {
        latencyMs: 100,
        faults: {
          rules: [
            {
              id: 'held',
              endpoint: 'payment_intents.create',
              kind: 'slow',
              delayMs: 1.5 * HEARTBEAT_TIMEOUT_MS,
              limit: 5,
            },
          ],
        },
      },
    });
    const frozen = await world.startWorker();
    await world.startRun();
    await world.reaches(3);
    frozen.signal('SIGSTOP');
    await sleep(1_000);
    const held = await world.query<{ n: string }>(
      `select count(*) as n from billing_charges where state in ('claimed', 'sent')`,
    );
    expect(Number(held[0]?.n), 'charges held by the frozen worker').toBeGreaterThan(0);
    await world.startWorker();
    // The successor takes over while the frozen one still has its attempt open; then both are alive.
    let workersBefore = 0;
    await waitFor(async () => (workersBefore = await attemptWorkers(world)) > 0, {
      timeoutMs: HEARTBEAT_TIMEOUT_MS + 40_000,
      otherwise: () => 'no second attempt was made while the first was still open',
    });
    frozen.signal('SIGCONT');
    await world.completes(60_000);
    // The zombie has to finish what it was at before anything is compared.
    await sleep(3_000);
    expect(workersBefore).toBeGreaterThan(0);
    expect(repeatedSends(world.simulator), 'one key sent twice').toBeGreaterThan(0);
    await expectChargedOnce(world, customers);
  });
});

/** Slots for which more than one worker has opened attempts. */
async function attemptWorkers(world: Awaited<ReturnType<typeof startWorld>>): Promise<number> {
  const rows = await world.query(
    `select g.customer_id from charge_attempts a join charge_generations g using (idempotency_key)
     group by g.customer_id having count(distinct a.worker) > 1`,
  );
  return rows.length;
}
