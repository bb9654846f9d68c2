import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { charge } from '../../src/activities/charge.ts';
import type { CrashPoint } from '../../src/activities/crash-points.ts';
import { reconcile } from '../../src/activities/reconcile.ts';
import type { FaultRule } from '../../src/simulator/index.ts';
import {
  ageSends,
  attend,
  chargesOf,
  customersOf,
  setFaults,
  startEngine,
  type Engine,
} from '../support/engine.ts';

const ids = Array.from({ length: 40 }, (_, i) => `c${String(i).padStart(2, '0')}`);
let engine: Engine;
const { claimed, fresh } = customersOf(() => engine, ids);

beforeAll(async () => {
  engine = await startEngine();
  await engine.plan(ids.map((id) => ({ id })));
});
afterEach(() => engine.simulator.setFaults(undefined));
afterAll(() => engine.close());

function faults(...rules: Omit<FaultRule, 'id'>[]): void {
  setFaults(engine.simulator, ...rules);
}

describe('a key that is too old', () => {
  it('C3: looks first and sends no POST when the confirm is 25 h old and took effect', async () => {
    const slot = await claimed();
    faults({ endpoint: 'payment_intents.confirm', kind: 'actThenDrop', nth: [1, 2] });
    await expect(charge(engine.deps, { ...slot, generation: 1 }, 1)).rejects.toMatchObject({
      type: 'ChargeIndeterminate',
    });
    await ageSends(engine.db, slot, '25 hours');
    const before = engine.simulator.requests().length;
    expect(await attend(engine.deps, slot)).toBe('charged');
    expect(
      engine.simulator
        .requests()
        .slice(before)
        .map((one) => one.method),
    ).toEqual(['GET']);
    expect(chargesOf(engine.simulator, slot.customerId)).toBe(1);
  });

  it('C3: sends no POST when the confirm is 25 h old and Stripe shows no effect', async () => {
    const slot = await claimed();
    faults({ endpoint: 'payment_intents.confirm', kind: 'resetBefore', nth: [1, 2] });
    await expect(charge(engine.deps, { ...slot, generation: 1 }, 1)).rejects.toMatchObject({
      type: 'ChargeIndeterminate',
    });
    await ageSends(engine.db, slot, '25 hours');
    const before = engine.simulator.requests().length;
    expect(await attend(engine.deps, slot)).toBe('indeterminate');
    expect(await attend(engine.deps, slot)).toBe('indeterminate');
    expect(
      engine.simulator
        .requests()
        .slice(before)
        .every((one) => one.method === 'GET'),
    ).toBe(true);
    expect(chargesOf(engine.simulator, slot.customerId)).toBe(0);
  });

  it('C3: does not create again when the create is 25 h old and its reply was lost', async () => {
    const slot = await claimed();
    faults({ endpoint: 'payment_intents.create', kind: 'actThenDrop', rate: 1 });
    await attend(engine.deps, slot, 1);
    engine.simulator.setFaults(undefined);
    await ageSends(engine.db, slot, '25 hours');
    engine.simulator.advanceClock(25 * 3_600_000);
    expect(await attend(engine.deps, slot)).toBe('charged');
    expect(engine.simulator.ledger({ customer: slot.customerId }).entries).toHaveLength(1);
  });

  it('stays indeterminate at the first look when the create is 25 h old and the list shows nothing', async () => {
    const slot = await claimed();
    faults({ endpoint: 'payment_intents.create', kind: 'resetBefore', rate: 1 });
    await attend(engine.deps, slot, 1);
    engine.simulator.setFaults(undefined);
    await ageSends(engine.db, slot, '25 hours');
    expect(await reconcile(engine.deps, { ...slot, generation: 1 })).toEqual({
      kind: 'unknown',
      reason: 'no_effect_seen: no_payment_intent',
      because: 'absentNotProven',
    });
    expect(engine.simulator.ledger({ customer: slot.customerId }).entries).toHaveLength(0);
  });
});

describe('a process that dies', () => {
  const POINTS: readonly CrashPoint[] = [
    'beforeClaimCommits',
    'afterClaimCommitted',
    'beforeCreateSent',
    'afterCreateReply',
    'afterIntentCommitted',
    'afterConfirmReply',
    'beforeRecordCommits',
    'afterRecordCommitted',
  ];

  it.each(POINTS)(
    'E4, E7: charges once, on one PaymentIntent, when it dies at %s',
    async (point) => {
      const slot = fresh();
      let reached = 0;
      const dying = engine.with({
        crashPoint: async (at) => {
          if (at !== point) return;
          reached += 1;
          throw new Error(`dies at ${point}`);
        },
      });
      await expect(attend(dying, slot)).rejects.toThrow(`dies at ${point}`);
      expect(reached).toBe(1);
      expect(await attend(engine.deps, slot)).toBe('charged');
      expect(chargesOf(engine.simulator, slot.customerId)).toBe(1);
      expect(engine.simulator.ledger({ customer: slot.customerId }).entries).toHaveLength(1);
    },
  );

  it('E7: looks up instead of confirming again when it died after the confirm', async () => {
    const slot = await claimed();
    const dying = engine.with({
      crashPoint: async (at) => {
        if (at === 'afterConfirmReply') throw new Error('dies');
      },
    });
    await expect(attend(dying, slot)).rejects.toThrow('dies');
    const before = engine.simulator.requests().length;
    await attend(engine.deps, slot);
    expect(
      engine.simulator
        .requests()
        .slice(before)
        .map((one) => one.method),
    ).toEqual(['GET']);
  });
});
