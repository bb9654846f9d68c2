import type { Stripe } from 'stripe';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { registerDuplicates } from '../../src/cli/commands/duplicates.ts';
import type { Simulator } from '../../src/simulator/index.ts';
import {
  attend,
  migratedDatabase,
  readSlot,
  runRef,
  slotRef,
  startEngine,
  TEST_KEY,
  type Engine,
} from '../support/engine.ts';
import { runInProcess, type Commanded } from '../support/in-process.ts';
import { foreignCharge } from '../support/refunds.ts';
import { testPostgres } from '../support/postgres.ts';
import { clientOf, startUnlimited } from './simulator/support.ts';

/** The month that the simulator's clock is in: the command's own range starts from there. */
const period = new Date().toISOString().slice(0, 7);
const run = runRef(period);
const report = z.looseObject({
  charges: z.number(),
  certain: z.number(),
  likely: z.number(),
  certainMinorByCurrency: z.record(z.string(), z.number()),
  plan: z.number().nullable(),
  settled: z.looseObject({ refunded: z.number() }),
});

let simulator: Simulator;
let engine: Engine;
let stripe: Stripe;

beforeAll(async () => {
  simulator = await startUnlimited();
  engine = await startEngine({ adopt: { databaseUrl: await migratedDatabase(), simulator } });
  stripe = clientOf(simulator, TEST_KEY);
  const ids = Array.from({ length: 105 }, (_, i) => `c${i + 1}`);
  await engine.plan(
    ids.map((id) => ({ id })),
    run,
  );
  for (const id of ids) await attend(engine.deps, slotRef(id, run));
});
afterAll(async () => {
  await engine.close();
  await simulator.close();
});

const command = (args: readonly string[], databaseUrl = engine.databaseUrl): Promise<Commanded> =>
  runInProcess(registerDuplicates, ['duplicates', '--json', ...args], {
    DATABASE_URL: databaseUrl,
    STRIPE_API_KEY: TEST_KEY,
    STRIPE_API_BASE: simulator.url,
  });

async function find(...args: string[]) {
  const done = await command(args);
  return { code: done.code, found: report.parse(done.json()) };
}

const ORDER = ['--operator', 'bob', '--reason', 'charged twice', '--yes'];

describe('chargeonce duplicates', () => {
  it('reads every page, finds nothing after a run of ours, and exits with 0', async () => {
    const { code, found } = await find();
    expect(code).toBe(0);
    expect(found).toMatchObject({ charges: 105, certain: 0, likely: 0, plan: null });
  });

  it('finds a second success of a slot on another page, plans it, gives it back, and finds nothing any more', async () => {
    const metadata = {
      chargeonce_namespace: 'base',
      chargeonce_customer: 'c1',
      chargeonce_period: period,
    };
    const extra = await foreignCharge(stripe, 'c1', { metadata, amount: 700 });
    const planned = await find('--plan');
    expect(planned.code).toBe(1);
    expect(planned.found).toMatchObject({
      certain: 1,
      likely: 0,
      certainMinorByCurrency: { usd: 700 },
    });
    const plan = String(planned.found.plan);
    expect((await stripe.refunds.list({ charge: extra })).data).toEqual([]);

    const refused = await command(['--execute', plan]);
    expect(refused.code).toBe(2);
    expect(refused.stderr).toContain('--reason');
    const unasked = await command(['--execute', plan, '--reason', 'x']);
    expect(unasked.code).toBe(2);
    expect(unasked.stderr).toContain('1 refund, 7.00 USD');
    expect((await stripe.refunds.list({ charge: extra })).data).toEqual([]);

    const executed = await command(['--execute', plan, ...ORDER]);
    expect(executed.code).toBe(0);
    expect(executed.json()).toMatchObject({
      refunded: 1,
      refundedMinorByCurrency: { usd: 700 },
      unknown: 0,
    });
    expect((await stripe.refunds.list({ charge: extra })).data).toHaveLength(1);
    const slot = await readSlot(engine.db, slotRef('c1', run));
    expect((await stripe.refunds.list({ charge: slot.charge_id ?? '' })).data).toEqual([]);
    const after = await find();
    expect(after.code).toBe(0);
    expect(after.found).toMatchObject({ certain: 0, settled: { refunded: 1 } });
  });

  it('finds the charge of a job before us as certain, when its metadata is named', async () => {
    await foreignCharge(stripe, 'c2', { metadata: { user: 'c2', month: period } });
    const keys = ['--period-metadata-key', 'month', '--customer-metadata-key', 'user'];
    expect((await find(...keys)).found).toMatchObject({ certain: 1, likely: 0 });
  });

  it('decides nothing, and exits with 5, when the list cannot be read to its end', async () => {
    simulator.setFaults({
      rules: [{ id: 'p2', endpoint: 'charges.list', kind: 'status503', nth: 2 }],
    });
    const { code, stderr } = await command(['--plan']);
    simulator.setFaults(undefined);
    expect(code).toBe(5);
    expect(stderr).toContain('Nothing was decided');
  });

  it('looks from a copied database, but neither plans nor executes there', async () => {
    const postgres = await testPostgres();
    const name = new URL(engine.databaseUrl).pathname.slice(1);
    await engine.close();
    const copy = await postgres.createDatabase({ template: name });
    engine = await startEngine({ adopt: { databaseUrl: engine.databaseUrl, simulator } });
    expect((await command([], copy.url)).stderr).not.toContain('bound to another place');
    const refused = await command(['--plan'], copy.url);
    expect(refused.code).toBe(2);
    expect(refused.stderr).toContain('environment adopt');
  });
});
