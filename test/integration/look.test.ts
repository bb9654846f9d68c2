import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { look, reconcile } from '../../src/activities/reconcile.ts';
import { record } from '../../src/activities/record.ts';
import type { SlotRef } from '../../src/domain/ids.ts';
import { ListTooLong, LookupFailed, type PaymentIntentFacts } from '../../src/payments/gateway.ts';
import type { FaultRule } from '../../src/simulator/index.ts';
import {
  ageSends,
  attend,
  chargesOf,
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

/** A slot whose confirm, or create, was sent 25 hours ago and had no effect. */
async function lostLongAgo(operation: 'create' | 'confirm' = 'confirm'): Promise<SlotRef> {
  const slot = await claimed();
  faults({ endpoint: `payment_intents.${operation}`, kind: 'resetBefore', rate: 1 });
  await attend(engine.deps, slot, 1);
  engine.simulator.setFaults(undefined);
  await ageSends(engine.db, slot, '25 hours');
  return slot;
}

const intentsOf = (slot: SlotRef) =>
  engine.simulator.ledger({ customer: slot.customerId }).entries.length;
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

describe('an intent that the list of its customer does not show', () => {
  it('finds the intent by its event when the list of the customer does not show it', async () => {
    const slot = await claimed();
    faults({ endpoint: 'payment_intents.create', kind: 'actThenDrop', rate: 1 });
    await attend(engine.deps, slot, 1);
    engine.simulator.setFaults(undefined);
    await ageSends(engine.db, slot, '25 hours');
    const listEvents: Engine['deps']['gateway']['listEvents'] = ({ types }) =>
      engine.deps.gateway.listEvents({ types, createdGte: 0, createdLte: 4_000_000_000 });
    const gateway = gatewayWith(engine.deps.gateway, {
      listPaymentIntents: async () => [],
      listEvents,
    });
    expect(await attend(engine.with({ gateway }), slot)).toBe('charged');
    expect(intentsOf(slot)).toBe(1);
    expect(chargesOf(engine.simulator, slot.customerId)).toBe(1);
  });

  it('opens generation 2 although a big run made more events than may be read', async () => {
    const slot = await lostLongAgo('create');
    const gateway = gatewayWith(engine.deps.gateway, {
      listEvents: () =>
        Promise.reject(new ListTooLong('/v1/events goes on', { status: null, cause: undefined })),
    });
    const deps = engine.with({ gateway });
    await quiet();
    expect(await reconcile(deps, { ...slot, generation: 1 })).toMatchObject({
      kind: 'unknown',
      because: 'absentNotProven',
    });
    await quiet();
    expect(await attend(deps, slot)).toBe('charged');
    expect(intentsOf(slot)).toBe(1);
  });

  it('takes events that cannot be read for no answer', async () => {
    const slot = await lostLongAgo('create');
    const gateway = gatewayWith(engine.deps.gateway, {
      listEvents: () => Promise.reject(new LookupFailed('down', { status: 503, cause: null })),
    });
    await quiet();
    await expect(reconcile(engine.with({ gateway }), { ...slot, generation: 1 })).rejects.toThrow(
      'down',
    );
    const reads = engine.db.selectFrom('absence_reads').select('id');
    expect(await reads.where('customer_id', '=', slot.customerId).execute()).toEqual([]);
  });
});
