import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { claimSlot } from '../../src/activities/claim-slot.ts';
import { reconcile } from '../../src/activities/reconcile.ts';
import { listSweepSlots } from '../../src/db/sweep.ts';
import type { SlotRef } from '../../src/domain/ids.ts';
import { METADATA } from '../../src/domain/metadata.ts';
import { LookupFailed } from '../../src/payments/gateway.ts';
import type { FaultRule } from '../../src/simulator/index.ts';
import {
  ageSends,
  attend,
  chargesOf,
  customersOf,
  gatewayWith,
  postsOf,
  readSlot,
  runRef,
  setFaults,
  slotRef,
  startEngine,
  type Engine,
} from '../support/engine.ts';

const ids = Array.from({ length: 40 }, (_, i) => `r${String(i).padStart(2, '0')}`);
const HOUR = 3_600_000;
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

/** A slot whose create, or confirm, was sent so long ago and had no effect. */
async function lostLongAgo(operation: 'create' | 'confirm', age = '25 hours'): Promise<SlotRef> {
  const slot = await claimed();
  await loseLongAgo(slot, operation, age);
  return slot;
}

async function loseLongAgo(
  slot: SlotRef,
  operation: 'create' | 'confirm',
  age = '25 hours',
): Promise<void> {
  faults({ endpoint: `payment_intents.${operation}`, kind: 'resetBefore', rate: 1 });
  await attend(engine.deps, slot, 1);
  engine.simulator.setFaults(undefined);
  await ageSends(engine.db, slot, age);
}

const asked = (slot: SlotRef, deps = engine.deps) => reconcile(deps, { ...slot, generation: 1 });
/** Longer than the engine's quiet time of 20 ms. */
const quiet = () => sleep(40);

async function readsOf(slot: SlotRef): Promise<string[]> {
  const rows = await engine.db
    .selectFrom('absence_reads')
    .select('sees')
    .where('customer_id', '=', slot.customerId)
    .orderBy('id')
    .execute();
  return rows.map((row) => row.sees);
}

const intentsOf = (slot: SlotRef) =>
  engine.simulator.ledger({ customer: slot.customerId }).entries.length;

describe('a send that had no effect and whose key is too old to be sent again', () => {
  it('opens generation 2 after two looks at an empty list, and charges once', async () => {
    const slot = await lostLongAgo('create');
    await quiet();
    expect(await asked(slot)).toMatchObject({ kind: 'unknown', because: 'absentNotProven' });
    await quiet();
    expect(await attend(engine.deps, slot)).toBe('charged');
    expect(await readSlot(engine.db, slot)).toMatchObject({ generation: 2 });
    expect(chargesOf(engine.simulator, slot.customerId)).toBe(1);
    expect(intentsOf(slot)).toBe(1);
  });

  it('confirms the same PaymentIntent under generation 2 when its confirm is proven absent', async () => {
    const slot = await lostLongAgo('confirm');
    const { payment_intent_id: intent } = await readSlot(engine.db, slot);
    await quiet();
    await asked(slot);
    await quiet();
    expect(await asked(slot)).toEqual({ kind: 'resumable', generation: 2, because: 'absent' });
    expect(await attend(engine.deps, slot)).toBe('charged');
    expect(await readSlot(engine.db, slot)).toMatchObject({ payment_intent_id: intent });
    expect(intentsOf(slot)).toBe(1);
    expect(chargesOf(engine.simulator, slot.customerId)).toBe(1);
    const closed = await engine.db
      .selectFrom('charge_generations')
      .select(['operation', 'generation', 'outcome'])
      .where('customer_id', '=', slot.customerId)
      .orderBy('generation')
      .orderBy('operation')
      .execute();
    expect(closed).toEqual([
      { operation: 'create', generation: 1, outcome: 'created' },
      { operation: 'confirm', generation: 1, outcome: 'absent' },
      { operation: 'confirm', generation: 2, outcome: 'charged' },
    ]);
  });

  it('E5, M20: takes a look-up that fails for no answer, however often, and opens nothing', async () => {
    const slot = await lostLongAgo('create');
    await quiet();
    const gateway = gatewayWith(engine.deps.gateway, {
      listPaymentIntents: () =>
        Promise.reject(new LookupFailed('down', { status: null, cause: null })),
    });
    for (let tries = 0; tries < 3; tries += 1) {
      await expect(asked(slot, engine.with({ gateway }))).rejects.toMatchObject({
        type: 'ChargeIndeterminate',
        nonRetryable: false,
      });
      await quiet();
    }
    expect(await readsOf(slot)).toEqual([]);
    expect(await readSlot(engine.db, slot)).toMatchObject({
      generation: 1,
      state: 'indeterminate',
    });
  });

  it('needs a quiet time after the send and between both looks', async () => {
    const slot = await lostLongAgo('confirm');
    const slow = engine.with({ absenceQuietMs: HOUR });
    await asked(slot, slow);
    await asked(slot, slow);
    // The send is younger than an hour, so neither look counts.
    expect(await readsOf(slot)).toEqual([]);
    await quiet();
    await asked(slot);
    expect(await asked(slot, engine.with({ absenceQuietMs: 30_000 }))).toMatchObject({
      kind: 'unknown',
    });
    expect(await readSlot(engine.db, slot)).toMatchObject({ generation: 1 });
  });

  it('does not add up two looks that saw different things', async () => {
    const slot = await lostLongAgo('confirm');
    await quiet();
    await asked(slot);
    await quiet();
    const seen = await engine.deps.gateway.retrievePaymentIntent(
      (await readSlot(engine.db, slot)).payment_intent_id ?? '',
    );
    const gateway = gatewayWith(engine.deps.gateway, {
      retrievePaymentIntent: async () => ({ ...seen, status: 'requires_payment_method' }),
    });
    expect(await asked(slot, engine.with({ gateway }))).toMatchObject({ kind: 'unknown' });
    await quiet();
    // The first look no longer counts: the one in between saw something else.
    expect(await asked(slot)).toMatchObject({ kind: 'unknown' });
    expect(await readsOf(slot)).toEqual([
      'requires_confirmation',
      'requires_payment_method',
      'requires_confirmation',
    ]);
  });

  it('goes on with generation 2 when the worker died between the proof and its answer', async () => {
    const slot = await lostLongAgo('confirm');
    await quiet();
    await asked(slot);
    await quiet();
    await asked(slot);
    // The activity is tried again with the generation that it was ordered with.
    expect(await asked(slot)).toEqual({ kind: 'resumable', generation: 2, because: 'absent' });
    expect(await attend(engine.deps, slot)).toBe('charged');
    expect(chargesOf(engine.simulator, slot.customerId)).toBe(1);
  });

  it('opens one generation when twenty look at once', async () => {
    const slot = await lostLongAgo('confirm');
    await quiet();
    await asked(slot);
    await quiet();
    const answers = await Promise.allSettled(Array.from({ length: 20 }, () => asked(slot)));
    const told = answers.map((one) =>
      one.status === 'fulfilled' && one.value.kind === 'resumable' ? one.value.generation : null,
    );
    // Whoever comes too late is told the same, or that the slot is at another generation by now.
    expect(new Set(told.filter((generation) => generation !== null))).toEqual(new Set([2]));
    expect(await readSlot(engine.db, slot)).toMatchObject({ generation: 2, state: 'claimed' });
    const proofs = await engine.db
      .selectFrom('audit_log')
      .select('action')
      .where('customer_id', '=', slot.customerId)
      .where('action', '=', 'slot.absent')
      .execute();
    expect(proofs).toHaveLength(1);
  });

  it('charges once when the confirm succeeds late, after its absence was proven', async () => {
    const slot = await claimed();
    faults({
      endpoint: 'payment_intents.confirm',
      kind: 'lateSuccess500',
      nth: 1,
      delayMs: 30 * HOUR,
    });
    await attend(engine.deps, slot, 1);
    engine.simulator.setFaults(undefined);
    await ageSends(engine.db, slot, '25 hours');
    await quiet();
    await asked(slot);
    await quiet();
    expect(await asked(slot)).toMatchObject({ kind: 'resumable', generation: 2 });
    // The intent succeeds at last, between the proof and the confirm of generation 2.
    engine.simulator.advanceClock(31 * HOUR);
    expect(await attend(engine.deps, slot)).toBe('charged');
    expect(chargesOf(engine.simulator, slot.customerId)).toBe(1);
  });
});

describe('a key that Stripe has spent on a server error', () => {
  it.each(['create', 'confirm'] as const)(
    'charges once, under the next generation, when a saved 500 stands before the %s and nothing happened',
    async (operation) => {
      const slot = await claimed();
      faults({ endpoint: `payment_intents.${operation}`, kind: 'fail500', nth: 1 });
      expect(await attend(engine.deps, slot)).toBe('indeterminate');
      engine.simulator.setFaults(undefined);
      // The same key brings the same 500; only then is it known to be spent.
      expect(await attend(engine.deps, slot)).toBe('indeterminate');
      await quiet();
      expect(await attend(engine.deps, slot)).toBe('indeterminate');
      await quiet();
      expect(await attend(engine.deps, slot)).toBe('charged');
      expect(await readSlot(engine.db, slot)).toMatchObject({ generation: 2 });
      expect(chargesOf(engine.simulator, slot.customerId)).toBe(1);
      expect(intentsOf(slot)).toBe(1);
    },
  );

  it('E11: takes the charge that stands behind a 500, without a second send', async () => {
    const slot = await claimed();
    faults({ endpoint: 'payment_intents.confirm', kind: 'actThen500', nth: 1 });
    await attend(engine.deps, slot);
    engine.simulator.setFaults(undefined);
    const before = postsOf(engine.simulator, 'confirm').length;
    expect(await attend(engine.deps, slot)).toBe('charged');
    expect(postsOf(engine.simulator, 'confirm')).toHaveLength(before);
    expect(chargesOf(engine.simulator, slot.customerId)).toBe(1);
  });
});

describe('an outcome that stays unknown', () => {
  it('goes to a person after 72 h, with what was seen, and is still found by a later look', async () => {
    const slot = await claimed();
    faults({ endpoint: 'payment_intents.confirm', kind: 'actThenDrop', rate: 1 });
    await attend(engine.deps, slot, 1);
    engine.simulator.setFaults(undefined);
    await ageSends(engine.db, slot, '73 hours');
    const gateway = gatewayWith(engine.deps.gateway, {
      retrievePaymentIntent: () =>
        Promise.reject(new LookupFailed('down', { status: 503, cause: null })),
    });
    await expect(asked(slot, engine.with({ gateway }))).rejects.toThrow('down');
    await expect(asked(slot, engine.with({ gateway }))).rejects.toThrow('down');
    expect(await readSlot(engine.db, slot)).toMatchObject({
      state: 'in_review',
      reason: 'look_up_failed',
      advice: 'resolve',
    });
    const swept = await listSweepSlots(engine.db, { after: null, limit: 100, everything: true });
    expect(swept.map((one) => one.customerId)).toContain(slot.customerId);
    expect(await attend(engine.deps, slot)).toBe('charged');
    expect(chargesOf(engine.simulator, slot.customerId)).toBe(1);
  });

  it('is charged once, with no operator, when Stripe shows after 80 h that the confirm was never sent', async () => {
    const slot = await claimed();
    faults({ endpoint: 'payment_intents.create', kind: 'actThenDrop', rate: 1 });
    await attend(engine.deps, slot, 1);
    engine.simulator.setFaults(undefined);
    await ageSends(engine.db, slot, '80 hours');
    const gateway = gatewayWith(engine.deps.gateway, {
      listPaymentIntents: () =>
        Promise.reject(new LookupFailed('down', { status: 503, cause: null })),
    });
    await expect(asked(slot, engine.with({ gateway }))).rejects.toThrow('down');
    expect(await readSlot(engine.db, slot)).toMatchObject({ state: 'in_review' });
    expect(await attend(engine.deps, slot)).toBe('charged');
    expect(await readSlot(engine.db, slot)).toMatchObject({ generation: 1 });
    expect(intentsOf(slot)).toBe(1);
    expect(chargesOf(engine.simulator, slot.customerId)).toBe(1);
  });

  it('goes to a person when several PaymentIntents carry its key', async () => {
    const slot = await lostLongAgo('create', '73 hours');
    const other = await claimed();
    await attend(engine.deps, other);
    const { payment_intent_id: id } = await readSlot(engine.db, other);
    const intent = await engine.deps.gateway.retrievePaymentIntent(id ?? '');
    const { idempotency_key: key } = await engine.db
      .selectFrom('charge_generations')
      .select('idempotency_key')
      .where('customer_id', '=', slot.customerId)
      .where('operation', '=', 'create')
      .executeTakeFirstOrThrow();
    const twin = { ...intent, metadata: { ...intent.metadata, [METADATA.key]: key } };
    const gateway = gatewayWith(engine.deps.gateway, {
      listPaymentIntents: async () => [
        { ...twin, id: 'pi_twin_1' },
        { ...twin, id: 'pi_twin_2' },
      ],
    });
    await expect(asked(slot, engine.with({ gateway }))).rejects.toMatchObject({
      type: 'InvariantBroken',
    });
    expect(await readSlot(engine.db, slot)).toMatchObject({
      state: 'in_review',
      reason: 'several_payment_intents',
    });
  });

  it('stays indeterminate before 72 h', async () => {
    const slot = await lostLongAgo('confirm', '71 hours');
    const slow = engine.with({ absenceQuietMs: HOUR });
    await asked(slot, slow);
    await asked(slot, slow);
    expect(await readSlot(engine.db, slot)).toMatchObject({ state: 'indeterminate' });
  });

  it('waits three weeks for a bank debit that Stripe shows as processing', async () => {
    const slot = await claimed();
    faults({ endpoint: 'payment_intents.confirm', kind: 'resetBefore', rate: 1 });
    await attend(engine.deps, slot, 1);
    engine.simulator.setFaults(undefined);
    const intent = await engine.deps.gateway.retrievePaymentIntent(
      (await readSlot(engine.db, slot)).payment_intent_id ?? '',
    );
    const gateway = gatewayWith(engine.deps.gateway, {
      retrievePaymentIntent: async () => ({ ...intent, status: 'processing' }),
    });
    const deps = engine.with({ gateway });
    await ageSends(engine.db, slot, '100 hours');
    for (let looks = 0; looks < 2; looks += 1) {
      expect(await asked(slot, deps)).toEqual({
        kind: 'unknown',
        reason: 'processing',
        because: 'stillProcessing',
      });
    }
    expect(await readSlot(engine.db, slot)).toMatchObject({ state: 'indeterminate' });
    await ageSends(engine.db, slot, '420 hours');
    await asked(slot, deps);
    expect(await readSlot(engine.db, slot)).toMatchObject({ state: 'in_review' });
  });

  it('reads the end of a bank debit that follows an absent generation, although the key only brings "processing" back', async () => {
    const run = runRef('2026-08');
    await engine.plan([{ id: 'bank', paymentMethod: 'pm_usBankAccount_insufficientFunds' }], run);
    const slot = slotRef('bank', run);
    await claimSlot(engine.deps, slot);
    await loseLongAgo(slot, 'confirm');
    await quiet();
    await asked(slot);
    await quiet();
    expect(await attend(engine.deps, slot)).toBe('indeterminate');
    expect(await readSlot(engine.db, slot)).toMatchObject({ generation: 2, reason: 'processing' });
    engine.simulator.advanceClock(2 * 60_000);
    expect(await attend(engine.deps, slot)).toBe('declined');
    expect(chargesOf(engine.simulator, slot.customerId)).toBe(0);
  });
});
