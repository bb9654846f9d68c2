import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ChargeOutcome } from '../../src/domain/charge.ts';
import { stopRunUpdate } from '../../src/workflows/messages.ts';
import { gate, people, startBench, until, type Bench } from '../support/workflow-bench.ts';

let bench: Bench;
beforeAll(async () => {
  bench = await startBench();
});
afterAll(() => bench.close());

describe('billingRun, stopped', () => {
  it('ends when charges that were under way at the stop are refused for the API key', async () => {
    const { world, run } = bench.world(people(60));
    const refused: ChargeOutcome = {
      outcome: 'misconfigured',
      reason: 'api_key_refused',
      advice: '',
      stopsRun: true,
    };
    const stripe = gate();
    world.charge = async () => {
      await stripe.opened;
      return refused;
    };
    const handle = await bench.start(run);
    await until('the window is full', () => world.count('charge') === 50);
    await handle.executeUpdate(stopRunUpdate, {
      args: [{ operator: 'olga', reason: 'the key was revoked' }],
    });
    stripe.open();
    const totals = await handle.result();
    expect(totals.counts).toMatchObject({ misconfigured: 50, charged: 0 });
    expect(totals.open).toBe(10);
    expect(world.moves.at(-1)).toBe('stopped');
  });
});
