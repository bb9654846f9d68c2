import type { TestWorkflowEnvironment } from '@temporalio/testing';
import { afterEach, expect, it } from 'vitest';
import { planRun } from '../../src/db/runs.ts';
import type { RunRef } from '../../src/domain/ids.ts';
import { deriveRunKey } from '../../src/vault-key.ts';
import { chargesOf, insertCustomers, runRef } from '../support/engine.ts';
import { startQuietDevServer, startStack, type Stack } from '../support/stack.ts';
import { RUN_TOKEN, startEngineVault, type EngineVault } from '../support/vault-engine.ts';
import { until } from '../support/workflow-bench.ts';

let env: TestWorkflowEnvironment | undefined;
let stack: Stack | undefined;
let behind: EngineVault | undefined;

afterEach(async () => {
  // The worker first, which closes its run at the vault.
  await stack?.close();
  await behind?.close();
  await env?.teardown();
});

const CUSTOMERS = Array.from({ length: 12 }, (_, i) => `q${String(i).padStart(2, '0')}`);
const PRICE = 1_500;
const order = { operator: 'olga', reason: 'the other job is stopped, the cap is raised' };

/** What a job that goes wrong does with the key of a run: it takes most of the cap away. */
async function spendBeside(vault: EngineVault, run: RunRef, amount: number): Promise<void> {
  const response = await fetch(new URL('/v1/payment_intents', vault.vault.proxyUrl), {
    method: 'POST',
    headers: {
      authorization: `Bearer ${deriveRunKey(RUN_TOKEN, 'test', run).key}`,
      'idempotency-key': 'not-ours',
    },
    body: new URLSearchParams({
      amount: String(amount),
      currency: 'usd',
      customer: 'cus_other',
      'metadata[chargeonce_namespace]': run.namespace,
      'metadata[chargeonce_period]': run.period,
    }),
  });
  expect(response.status).toBe(200);
}

it('pauses a run whose cap is used up, and charges everybody once after a raise and a resume', async () => {
  env = await startQuietDevServer();
  stack = await startStack(env, { workers: 0 });
  const { client, db, simulator } = stack;
  behind = await startEngineVault(stack);
  await stack.addWorker({ vault: behind.settings });
  const run = runRef('2025-05');
  await insertCustomers(
    db,
    CUSTOMERS.map((id) => ({ id, amountMinor: PRICE })),
  );
  await planRun(db, run, 'test');
  const { id } = await behind.admin('PUT', `/vault/runs/${run.namespace}/${run.period}`);
  // 12 × 1500 are planned, so that 19800 are the cap: room for three.
  await spendBeside(behind, run, 15_000);
  await client.startRun(run, 'test');
  await until('paused', async () => (await client.progress(run))?.phase === 'paused');
  const slotsIn = async (state: 'blocked' | 'charged') =>
    (
      await db
        .selectFrom('billing_charges')
        .select('customer_id')
        .where('state', '=', state)
        .execute()
    ).length;
  // A refusal that is on its way would pause it once more.
  await until('all reported', async () => (await client.progress(run))?.finished === 12);
  expect(await slotsIn('blocked')).toBe(9);
  expect(await slotsIn('charged')).toBe(3);
  expect((await client.progress(run))?.note).toMatch(/spend_cap_exceeded.*vault keys raise/);
  await behind.admin('PATCH', `/vault/keys/${String(id)}`, {
    currency: 'usd',
    max_amount: 40_000,
    ...order,
  });
  expect(await client.resume(run, order)).toEqual({ chargesToFire: 9 });
  const totals = await client.run(run).result();
  expect(totals).toMatchObject({ open: 0, counts: { charged: 12, blocked: 0 } });
  expect(CUSTOMERS.map((customer) => chargesOf(simulator, customer))).toEqual(
    CUSTOMERS.map(() => 1),
  );
  const generations = await db.selectFrom('billing_charges').select('generation').execute();
  expect(new Set(generations.map(({ generation }) => generation))).toEqual(new Set([1]));
  const [window] = await db.selectFrom('vault_windows').select('used_minor').execute();
  expect(window?.used_minor).toBe(15_000 + 12 * PRICE);
});
