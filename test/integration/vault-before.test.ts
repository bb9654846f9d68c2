import { randomUUID } from 'node:crypto';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { freezeGeneration } from '../../src/activities/frozen.ts';
import { planOpened } from '../../src/activities/vault-run.ts';
import { acceptRerun } from '../../src/db/reruns.ts';
import { planRun } from '../../src/db/runs.ts';
import type { RunRef } from '../../src/domain/ids.ts';
import { deriveRunKey } from '../../src/vault-key.ts';
import {
  attend,
  chargesOf,
  insertCustomers,
  readSlot,
  runRef,
  setFaults,
  slotRef,
  startEngine,
  type Engine,
} from '../support/engine.ts';
import { assertLedger } from '../support/vault-ledger.ts';
import { RUN_TOKEN, startEngineVault, type EngineVault } from '../support/vault-engine.ts';

let engine: Engine;
let behind: EngineVault;

beforeAll(async () => {
  engine = await startEngine();
  await insertCustomers(engine.db, [
    { id: 'declined', paymentMethod: 'pm_card_chargeDeclined' },
    { id: 'cutoff' },
  ]);
  behind = await startEngineVault(engine);
});
afterEach(async () => {
  engine.simulator.setFaults(undefined);
  await assertLedger(engine.db);
});
afterAll(async () => {
  await behind.close();
  await engine.close();
});

async function planned(period: string): Promise<RunRef> {
  const run = runRef(period);
  await planRun(engine.db, run, 'test');
  return run;
}

const keyOf = (run: RunRef) => deriveRunKey(RUN_TOKEN, 'test', run);
const capOf = async (run: RunRef) =>
  (await behind.admin('GET', `/vault/keys/${keyOf(run).keyId}`))['caps'];

describe('a run that was begun before there was a vault', () => {
  it('is gone on with through it: a declined customer is billed by a rerun, and the cap has the sum', async () => {
    const run = await planned('2026-01');
    const slot = slotRef('declined', run);
    expect(await attend(engine.deps, slot)).toBe('declined');
    await engine.db
      .updateTable('customers')
      .set({ payment_method_id: 'pm_card_visa' })
      .where('customer_id', '=', 'declined')
      .execute();
    const deps = behind.depsOf(run);
    await planOpened(deps, run, 'test');
    const order = { ...slot, requestId: randomUUID(), operator: 'olga', reason: 'a new card' };
    await acceptRerun(engine.db, order, (item) => freezeGeneration(deps, slot, item));
    expect(await attend(deps, slot)).toBe('charged');
    expect(chargesOf(engine.simulator, slot.customerId)).toBe(1);
    expect(await capOf(run)).toMatchObject([{ spent: 1_500, reserved: 0 }]);
  });

  it('confirms what was made and not confirmed, once, and takes room for it first', async () => {
    const run = await planned('2026-02');
    const slot = slotRef('cutoff', run);
    setFaults(engine.simulator, {
      endpoint: 'payment_intents.confirm',
      kind: 'resetBefore',
      rate: 1,
    });
    await attend(engine.deps, slot, 1);
    engine.simulator.setFaults(undefined);
    const before = await readSlot(engine.db, slot);
    expect(before).toMatchObject({ state: 'indeterminate' });
    expect(before.payment_intent_id).toMatch(/^pi_/);
    await planOpened(behind.depsOf(run), run, 'test');
    expect(await attend(behind.depsOf(run), slot)).toBe('charged');
    expect(await readSlot(engine.db, slot)).toMatchObject({
      payment_intent_id: before.payment_intent_id,
    });
    expect(await capOf(run)).toMatchObject([{ spent: 1_500, reserved: 0 }]);
  });

  it('has no use of the intents of another run, whose cap is another one', async () => {
    const run = await planned('2026-03');
    const other = await planned('2026-04');
    const slot = slotRef('cutoff', other);
    setFaults(engine.simulator, {
      endpoint: 'payment_intents.confirm',
      kind: 'resetBefore',
      rate: 1,
    });
    await attend(engine.deps, slot, 1);
    engine.simulator.setFaults(undefined);
    const { payment_intent_id: intent } = await readSlot(engine.db, slot);
    const deps = behind.depsOf(run);
    await planOpened(deps, run, 'test');
    const { apiKey, apiBase } = (await deps.vault?.credentialsOf(run)) ?? {
      apiKey: '',
      apiBase: '',
    };
    const refused = await fetch(`${apiBase}/v1/payment_intents/${intent}/confirm`, {
      method: 'POST',
      headers: { authorization: `Bearer ${apiKey}`, 'idempotency-key': 'of-another-run' },
      body: new URLSearchParams({ payment_method: 'pm_card_visa' }),
    });
    expect(refused.status).toBe(403);
    expect(await refused.json()).toMatchObject({ error: { code: 'unknown_payment_intent' } });
    expect(await capOf(run)).toMatchObject([{ spent: 0, reserved: 0 }]);
  });
});
