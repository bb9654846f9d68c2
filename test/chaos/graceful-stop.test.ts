import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { HEARTBEAT_TIMEOUT_MS } from '../../src/domain/timeouts.ts';
import {
  expectChargedOnce,
  killAll,
  repeatedSends,
  startWorld,
  type World,
} from '../support/chaos.ts';
import { waitFor } from '../support/cli.ts';

afterAll(killAll);

const WAIT = { timeoutMs: 60_000 };

/** How many slots have had their create sent, and how many are charged or declined. */
async function counts(world: World): Promise<{ begun: number; ended: number }> {
  const [row] = await world.query<{ begun: number; ended: number }>(
    `select count(sent_at)::integer as begun,
       count(*) filter (where state in ('charged', 'declined'))::integer as ended
     from billing_charges`,
  );
  return row ?? { begun: 0, ended: 0 };
}

/** How it ended, with what it said of errors. */
function endOf(worker: Awaited<ReturnType<World['startWorker']>>) {
  const errors = worker
    .output()
    .split('\n')
    .filter((line) => line.startsWith('error'));
  return { code: worker.exitCode(), errors: errors.join('\n') };
}

describe('a worker is asked to stop', () => {
  const customers = 10;
  let world: World;
  beforeAll(async () => {
    world = await startWorld({ customers, chargesPerSecond: 3, simulator: { latencyMs: 1_000 } });
  });

  it('while charges are in flight: they end and are recorded, none is begun or cut off, and it exits with 0', async () => {
    const worker = await world.startWorker();
    await world.startRun();
    await waitFor(async () => (await counts(world)).begun >= 2, WAIT);
    worker.signal('SIGTERM');
    // The same press, passed on by a launcher.
    worker.signal('SIGTERM');
    await waitFor(() => worker.output().includes('stopping: charges under way finish'), WAIT);
    const { begun } = await counts(world);
    await worker.gone();
    expect(endOf(worker)).toEqual({ code: 0, errors: '' });
    const left = await counts(world);
    // One may have passed the last check when the order came.
    expect(left.begun - begun).toBeLessThanOrEqual(1);
    expect(left.ended).toBe(left.begun);
    expect(left.begun).toBeLessThan(customers);
    expect(repeatedSends(world.simulator), 'keys sent twice').toBe(0);
  });

  it('twice: it says what it cuts off, leaves at once with 130, and nobody is charged twice', async () => {
    const held = { endpoint: 'payment_intents.confirm', kind: 'actThenDrop' } as const;
    world.simulator.setFaults({ rules: [{ id: 'held', ...held, delayMs: 30_000, limit: 1 }] });
    const worker = await world.startWorker();
    await waitFor(() => world.simulator.counters().faults[0]?.fired === 1, WAIT);
    worker.signal('SIGTERM');
    await waitFor(() => worker.output().includes('Ask again to leave at once'), WAIT);
    await waitFor(() => {
      worker.signal('SIGTERM');
      return worker.exitCode() !== null;
    }, WAIT);
    expect(worker.exitCode()).toBe(130);
    expect(worker.output()).toMatch(
      /SIGTERM again: leaving at once\. Charges under way are cut off/,
    );
    await world.startWorker();
    await world.completes(60_000);
    await expectChargedOnce(world, customers);
  });
});

describe('a worker is asked to stop while Stripe is slow', () => {
  it('hands over what cannot be answered in time, and the other worker goes on at once', async () => {
    const customers = 8;
    // The grace is 40 s and an answer may take 35: five seconds after the order no request is begun any more.
    const world = await startWorld({
      customers,
      chargesPerSecond: 0,
      stripeTimeoutMs: 35_000,
      simulator: {
        faults: {
          rules: [{ id: 'slow', endpoint: 'payment_intents.create', kind: 'slow', delayMs: 7_000 }],
        },
      },
    });
    const [stopping, other] = [await world.startWorker(), await world.startWorker()];
    await world.startRun();
    await waitFor(async () => (await counts(world)).begun === customers, WAIT);
    stopping.signal('SIGTERM');
    await stopping.gone();
    expect(endOf(stopping)).toEqual({ code: 0, errors: '' });
    await world.completes(60_000);
    const handedOver = await world.query<{ ms: number }>(
      `select extract(epoch from min(next.sent_at) - min(answer.answered_at))::float * 1000 as ms
       from charge_attempts mine
       join charge_generations g on g.idempotency_key = mine.idempotency_key and g.operation = 'create'
       join charge_attempt_answers answer on answer.attempt_id = mine.attempt_id
       join charge_generations c on c.customer_id = g.customer_id and c.operation = 'confirm'
       join charge_attempts next on next.idempotency_key = c.idempotency_key and next.worker like '${other.pid}@%'
       where mine.worker like '${stopping.pid}@%' group by g.customer_id`,
    );
    expect(handedOver.length, 'charges handed over').toBeGreaterThan(0);
    const slowest = Math.max(...handedOver.map(({ ms }) => ms));
    expect(slowest).toBeLessThan(HEARTBEAT_TIMEOUT_MS / 2);
    expect(repeatedSends(world.simulator), 'keys sent twice').toBe(0);
    await expectChargedOnce(world, customers);
  });
});
