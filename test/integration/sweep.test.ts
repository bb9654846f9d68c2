import { setTimeout as sleep } from 'node:timers/promises';
import type { TestWorkflowEnvironment } from '@temporalio/testing';
import { afterAll, beforeAll, expect, it } from 'vitest';
import {
  describeHousekeeping,
  ensureHousekeeping,
} from '../../src/client/housekeeping-schedule.ts';
import { setControl } from '../../src/db/runs.ts';
import { readLastSweep } from '../../src/db/sweep.ts';
import { HOUSEKEEPING_ID } from '../../src/domain/ids.ts';
import {
  chargesOf,
  insertCustomers,
  postsOf,
  readSlot,
  runRef,
  setFaults,
  slotRef,
} from '../support/engine.ts';
import { assertInvariants } from '../support/invariants.ts';
import { startQuietDevServer, startStack, type Stack } from '../support/stack.ts';

let env: TestWorkflowEnvironment;
let stack: Stack;

beforeAll(async () => {
  env = await startQuietDevServer();
  stack = await startStack(env);
  await insertCustomers(stack.db, [
    { id: 'fine' },
    { id: 'silent' },
    { id: 'debit', paymentMethod: 'pm_usBankAccount_success' },
  ]);
});
afterAll(async () => {
  await stack.close();
  await env.teardown();
});

const only = (customer: string) => ({ where: { chargeonce_customer: customer } });

it('finds the end of every outcome that a completed run left unknown, with no operator step', async () => {
  const run = runRef('2026-10');
  // Answered 500 as long as the run goes on, without any effect: nothing but proof of absence helps.
  setFaults(stack.simulator, {
    endpoint: 'payment_intents.confirm',
    kind: 'fail500',
    ...only('silent'),
  });
  await stack.client.startRun(run, 'olga');
  const totals = await stack.client.run(run).result();
  expect(totals.counts).toMatchObject({ charged: 1, indeterminate: 2 });

  stack.simulator.setFaults(undefined);
  const first = await stack.client.sweep({ everything: true });
  expect(first.looked).toBe(2);
  expect(await readSlot(stack.db, slotRef('debit', run))).toMatchObject({ reason: 'processing' });

  // The bank answers after days; and a quiet time later the second look proves that nothing was charged.
  stack.simulator.advanceClock(8 * 24 * 3_600_000);
  await expect
    .poll(async () => (await stack.client.sweep({ everything: true })).leftOpen, { interval: 700 })
    .toBe(0);
  for (const id of ['fine', 'silent', 'debit']) {
    expect(await readSlot(stack.db, slotRef(id, run))).toMatchObject({ state: 'charged' });
    expect(chargesOf(stack.simulator, id)).toBe(1);
  }
  expect(await readLastSweep(stack.db)).toMatchObject({ leftOpen: 0 });
  const { databaseUrl, simulator, client } = stack;
  await assertInvariants({ databaseUrl, simulator, run, temporal: client.temporal });
});

it('asks Stripe and sends nothing for a run that an operator has stopped', async () => {
  const run = runRef('2026-11');
  setFaults(stack.simulator, {
    endpoint: 'payment_intents.confirm',
    kind: 'fail500',
    ...only('silent'),
  });
  await stack.client.startRun(run, 'olga');
  await stack.client.run(run).result();
  stack.simulator.setFaults(undefined);
  await setControl(stack.db, run, { control: 'stopped', note: 'stopped by olga: wrong prices' });
  const slot = await readSlot(stack.db, slotRef('silent', run));
  const before = postsOf(stack.simulator, 'confirm').length;
  for (let pass = 0; pass < 2; pass += 1) {
    expect(await stack.client.sweep({ everything: true })).toMatchObject({
      looked: 2,
      leftOpen: 2,
    });
    await sleep(1_100);
  }
  expect(postsOf(stack.simulator, 'confirm')).toHaveLength(before);
  expect(await readSlot(stack.db, slotRef('silent', run))).toMatchObject({
    state: 'indeterminate',
    generation: slot.generation,
  });
});

it('has an hourly Schedule, made once however many workers start, that runs the sweep', async () => {
  const { temporal } = stack.client;
  const made = await Promise.all([1, 2, 3].map(() => ensureHousekeeping(temporal)));
  expect(made.filter((one) => one === 'created')).toHaveLength(1);
  const passed = (await readLastSweep(stack.db))?.at.getTime() ?? 0;
  await temporal.schedule.getHandle(HOUSEKEEPING_ID).trigger();
  await expect
    .poll(async () => (await readLastSweep(stack.db))?.at.getTime() ?? 0)
    .toBeGreaterThan(passed);
  const status = await describeHousekeeping(temporal);
  expect(status?.paused).toBe(false);
  expect(status?.nextAt?.getTime()).toBeLessThan(Date.now() + 3_700_000);
});
