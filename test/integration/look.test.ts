import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { look, reconcile } from '../../src/activities/reconcile.ts';
import { record } from '../../src/activities/record.ts';
import type { SlotRef } from '../../src/domain/ids.ts';
import type { PaymentIntentFacts } from '../../src/payments/gateway.ts';
import type { FaultRule } from '../../src/simulator/index.ts';
import {
  ageSends,
  attend,
  customersOf,
  gatewayWith,
  postsOf,
  readSlot,
  setFaults,
  startEngine,
  type Engine,
} from '../support/engine.ts';

const ids = Array.from({ length: 8 }, (_, i) => `l${i}`);
let engine: Engine;
const { claimed } = customersOf(() => engine, ids);

beforeAll(async () => {
  engine = await startEngine();
  await engine.plan(ids.map((id) => ({ id })));
});
afterEach(() => engine.simulator.setFaults(undefined));
afterAll(() => engine.close());

function faults(...rules: Omit<FaultRule, 'id'>[]): void {
  setFaults(engine.simulator, ...rules);
}

/** A slot whose confirm was sent 25 hours ago and had no effect. */
async function lostLongAgo(): Promise<SlotRef> {
  const slot = await claimed();
  faults({ endpoint: 'payment_intents.confirm', kind: 'resetBefore', rate: 1 });
  await attend(engine.deps, slot, 1);
  engine.simulator.setFaults(undefined);
  await ageSends(engine.db, slot, '25 hours');
  return slot;
}

/** Longer than the engine's quiet time of 20 ms. */
const quiet = () => sleep(40);

/** A slot whose next generation is open, because its confirm is proven absent, and is not sent. */
async function waitsUnderGeneration2(): Promise<SlotRef> {
  const slot = await lostLongAgo();
  for (let looks = 0; looks < 2; looks += 1) {
    await quiet();
    await reconcile(engine.deps, { ...slot, generation: 1 });
  }
  expect(await readSlot(engine.db, slot)).toMatchObject({ state: 'claimed', generation: 2 });
  return slot;
}

/** The engine as if Stripe showed this of the slot's PaymentIntent. */
async function showing(slot: SlotRef, seen: Partial<PaymentIntentFacts>) {
  const { payment_intent_id: id } = await readSlot(engine.db, slot);
  const intent = await engine.deps.gateway.retrievePaymentIntent(id ?? '');
  const gateway = gatewayWith(engine.deps.gateway, {
    retrievePaymentIntent: async () => ({ ...intent, ...seen }),
  });
  return engine.with({ gateway });
}

describe('a look that may only read', () => {
  it('finds the success of a refused slot, and the slot is charged', async () => {
    const slot = await claimed();
    faults({ endpoint: 'payment_intents.confirm', kind: 'declineOnce', nth: 1 });
    expect(await attend(engine.deps, slot)).toBe('declined');
    engine.simulator.setFaults(undefined);
    // Somebody confirms it by hand in the dashboard.
    const deps = await showing(slot, {
      status: 'succeeded',
      latestCharge: `ch_hand_${slot.customerId}`,
    });
    const found = await look(deps, slot);
    if (found.kind !== 'settled') throw new Error('nothing found');
    await record(engine.deps, slot, found.charge);
    expect(await readSlot(engine.db, slot)).toMatchObject({
      state: 'charged',
      charge_id: `ch_hand_${slot.customerId}`,
    });
  });

  it('finds the success of a slot that waits under its next generation, and sends nothing', async () => {
    const slot = await waitsUnderGeneration2();
    const deps = await showing(slot, {
      status: 'succeeded',
      latestCharge: `ch_late_${slot.customerId}`,
    });
    const found = await look(deps, slot);
    if (found.kind !== 'settled') throw new Error('nothing found');
    expect(await record(engine.deps, slot, found.charge)).toEqual({ outcome: 'charged' });
    // Twice: the second reads what the first wrote.
    expect(await record(engine.deps, slot, found.charge)).toEqual({ outcome: 'charged' });
    expect(await readSlot(engine.db, slot)).toMatchObject({
      state: 'charged',
      generation: 2,
      charge_id: `ch_late_${slot.customerId}`,
    });
  });

  it('takes no refusal for a slot that waits under its next generation', async () => {
    const slot = await waitsUnderGeneration2();
    // Somebody tried another card by hand.
    const deps = await showing(slot, {
      status: 'requires_payment_method',
      latestCharge: 'ch_by_hand',
      lastError: {
        code: 'card_declined',
        declineCode: 'lost_card',
        adviceCode: null,
        chargeId: 'ch_by_hand',
      },
    });
    expect(await look(deps, slot)).toEqual({
      kind: 'resumable',
      generation: 2,
      because: 'neverSent',
    });
    expect(await readSlot(engine.db, slot)).toMatchObject({ state: 'claimed', generation: 2 });
  });

  it('sends nothing and opens nothing where a send would be next', async () => {
    const slot = await lostLongAgo();
    const before = postsOf(engine.simulator, 'confirm').length;
    for (let looks = 0; looks < 3; looks += 1) {
      await quiet();
      expect(await look(engine.deps, slot)).toMatchObject({ kind: 'unknown' });
    }
    expect(await readSlot(engine.db, slot)).toMatchObject({ generation: 1 });
    expect(postsOf(engine.simulator, 'confirm')).toHaveLength(before);
  });

  it('says of a declined slot that it is declined, and leaves it as it is', async () => {
    const slot = await claimed();
    faults({ endpoint: 'payment_intents.confirm', kind: 'declineOnce', nth: 1 });
    await attend(engine.deps, slot);
    engine.simulator.setFaults(undefined);
    const before = await readSlot(engine.db, slot);
    const found = await look(engine.deps, slot);
    expect(found).toMatchObject({ kind: 'settled', charge: { result: { outcome: 'declined' } } });
    if (found.kind === 'settled') await record(engine.deps, slot, found.charge);
    expect(await readSlot(engine.db, slot)).toEqual(before);
  });
});
