import { afterEach, describe, expect, it } from 'vitest';
import { setTimeout as sleep } from 'node:timers/promises';
import { HEARTBEAT_TIMEOUT_MS } from '../../src/domain/timeouts.ts';
import { waitFor } from '../support/cli.ts';
import { expectChargedOnce, killAll, repeatedSends, startWorld } from '../support/chaos.ts';

/** What the issue allows between a worker's kill and the first charge of its successor. */
const RECOVERY_MS = 25_000;

afterEach(killAll);

describe('real processes are killed in the middle of a run', () => {
  it('kill -9 of the worker: a second one takes over within 25 s and charges nobody twice', async () => {
    const customers = 60;
    // Slow answers, so that charges are in flight whenever the kill comes.
    const world = await startWorld({
      customers,
      chargesPerSecond: 20,
      simulator: { latencyMs: 150 },
    });
    const first = await world.startWorker();
    await world.startRun();
    await world.reaches(10);
    await first.kill();
    const killedAt = performance.now();
    const [inFlight] = await world.query<{ n: string }>(
      `select count(*) as n from billing_charges where state in ('claimed', 'sent')`,
    );
    expect(Number(inFlight?.n), 'charges in flight at the kill').toBeGreaterThan(0);
    const open = await world.query<{ customer_id: string }>(
      `select customer_id from billing_charges where state in ('claimed', 'sent')`,
    );
    await world.startWorker();
    // Every slot that the dead worker held, not just the queue behind it, is settled within the bound.
    const ids = open.map((row) => `'${row.customer_id}'`).join(',');
    await waitFor(
      async () => {
        const rows = await world.query(
          `select 1 from billing_charges where customer_id in (${ids}) and state in ('claimed', 'sent', 'indeterminate')`,
        );
        return rows.length === 0;
      },
      { timeoutMs: 60_000 },
    );
    expect(performance.now() - killedAt).toBeLessThan(RECOVERY_MS);
    await world.completes(60_000);
    await expectChargedOnce(world, customers);
  });

  it('kill -9 of the Temporal server: started from its file, the run goes on where it was', async () => {
    const customers = 60;
    const world = await startWorld({ customers, chargesPerSecond: 20 });
    await world.startWorker();
    await world.startRun();
    await world.reaches(10);
    await world.temporal.kill();
    const atKill = await world.charged();
    expect(atKill).toBeLessThan(customers * 0.9);
    await sleep(1_000);
    await world.temporal.start();
    await world.completes(90_000);
    expect(await world.charged()).toBeGreaterThan(atKill);
    await expectChargedOnce(world, customers);
  });

  it('PostgreSQL stopped at once and started again: no claim is lost and no charge is made twice', async () => {
    const customers = 60;
    const world = await startWorld({
      customers,
      chargesPerSecond: 20,
      simulator: { latencyMs: 150 },
    });
    const worker = await world.startWorker();
    await world.startRun();
    await world.reaches(10);
    await world.postgres.immediateStop();
    await expect(world.charged()).rejects.toThrow(/ECONNREFUSED/);
    await sleep(2_000);
    await world.postgres.start();
    const atRestart = await world.charged();
    expect(atRestart).toBeLessThan(customers * 0.9);
    await world.completes(90_000);
    expect(worker.pid).toBeGreaterThan(0);
    await expectChargedOnce(world, customers);
  });

  it('a worker frozen longer than its heartbeat wakes up beside its successor: one charge each', async () => {
    const customers = 30;
    const world = await startWorld({
      customers,
      chargesPerSecond: 20,
      simulator: { latencyMs: 300 },
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
      timeoutMs: HEARTBEAT_TIMEOUT_MS + 20_000,
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
