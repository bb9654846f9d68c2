import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { charge } from '../../src/activities/charge.ts';
import { claimSlot } from '../../src/activities/claim-slot.ts';
import type { ActivityDeps } from '../../src/activities/deps.ts';
import { freezeGeneration } from '../../src/activities/frozen.ts';
import { reconcile } from '../../src/activities/reconcile.ts';
import { record } from '../../src/activities/record.ts';
import { decideRerun } from '../../src/activities/run.ts';
import type { ChargeOperation } from '../../src/domain/idempotency-key.ts';
import type { SlotRef } from '../../src/domain/ids.ts';
import { createStripeGateway } from '../../src/payments/stripe-gateway.ts';
import type { FaultRule } from '../../src/simulator/index.ts';
import {
  attend,
  chargesOf,
  customersOf,
  postsOf,
  readSlot,
  setFaults,
  startEngine,
  TEST_KEY,
  type Engine,
} from '../support/engine.ts';
import { until } from '../support/workflow-bench.ts';

// Failures that others had in public; the ids are those of docs/cases.md.

const DECLINING = 'pm_card_visa_chargeDeclined';
/** Shorter than the simulator's `slow`, so that a charge ends as one whose answer never came. */
const IMPATIENT_MS = 250;
const SLOW_MS = 600;

const good = Array.from({ length: 30 }, (_, i) => `c${String(i).padStart(2, '0')}`);
const poor = Array.from({ length: 4 }, (_, i) => `p${i}`);

let engine: Engine;
/** The same database and provider behind a pool and a client of its own: another process's view. */
let replica: Engine;
let impatient: ActivityDeps & { close(): void };
const { fresh, claimed } = customersOf(() => engine, good);
const declinedOnes = customersOf(() => engine, poor);

beforeAll(async () => {
  engine = await startEngine();
  await engine.plan([
    ...good.map((id) => ({ id })),
    ...poor.map((id) => ({ id, paymentMethod: DECLINING })),
  ]);
  replica = await startEngine({ adopt: engine });
  const gateway = createStripeGateway({
    apiKey: TEST_KEY,
    apiBase: engine.simulator.url,
    timeoutMs: IMPATIENT_MS,
  });
  impatient = { ...engine.with({ gateway }), close: () => gateway.close() };
});
afterEach(() => engine.simulator.setFaults(undefined));
afterAll(async () => {
  impatient.close();
  await replica.close();
  await engine.close();
});

/** The requests that reached the provider under the slot's stored keys. */
async function postsFor(slot: SlotRef, operation: ChargeOperation) {
  const rows = await engine.db
    .selectFrom('charge_generations')
    .select('idempotency_key')
    .where('customer_id', '=', slot.customerId)
    .execute();
  const keys = new Set(rows.map((row) => row.idempotency_key));
  return postsOf(engine.simulator, operation).filter((post) => keys.has(post.idempotencyKey ?? ''));
}

/** One success on one PaymentIntent, by the provider's own book. */
function expectChargedOnce(slot: SlotRef): void {
  expect(chargesOf(engine.simulator, slot.customerId)).toBe(1);
  expect(engine.simulator.ledger({ customer: slot.customerId }).entries).toHaveLength(1);
}

const order = (slot: SlotRef, requestId: string) => ({
  ...slot,
  requestId,
  operator: 'olga',
  reason: 'new card',
});

async function declinedThenNewCard(): Promise<SlotRef> {
  const slot = declinedOnes.fresh();
  expect(await attend(engine.deps, slot)).toBe('declined');
  await engine.db
    .updateTable('customers')
    .set({ payment_method_id: 'pm_card_visa' })
    .where('customer_id', '=', slot.customerId)
    .execute();
  return slot;
}

describe('the key of a slot', () => {
  it('A2: is another one after a decline and a rerun', async () => {
    const slot = await declinedThenNewCard();
    const before = await readSlot(engine.db, slot);
    await decideRerun(engine.deps, order(slot, 'a2'));
    expect(await attend(engine.deps, slot)).toBe('charged');
    const after = await readSlot(engine.db, slot);
    expect([before.generation, after.generation]).toEqual([1, 2]);
    const confirms = await postsFor(slot, 'confirm');
    expect(confirms.map((post) => post.idempotencyKey)).toEqual([
      before.idempotency_key,
      after.idempotency_key,
    ]);
    expect(before.idempotency_key).not.toBe(after.idempotency_key);
    expectChargedOnce(slot);
  });

  it.each(['create', 'confirm'] as const)(
    'A2: is the same, with the same bytes, after a %s whose answer did not come in time',
    async (operation) => {
      const slot = await claimed();
      setFaults(engine.simulator, {
        endpoint: `payment_intents.${operation}`,
        kind: 'slow',
        delayMs: SLOW_MS,
        limit: 1,
      });
      const failed = charge(impatient, { ...slot, generation: 1 }, 1);
      await expect(failed).rejects.toMatchObject({ type: 'ChargeIndeterminate' });
      expect(await readSlot(engine.db, slot)).toMatchObject({ state: 'sent', generation: 1 });
      // The next attempt meets the first, which is still at work, and is told so; later ones succeed.
      await until('charged', async () => (await attend(engine.deps, slot)) === 'charged');
      const posts = await postsFor(slot, operation);
      expect(posts.length).toBeGreaterThan(1);
      expect(new Set(posts.map((post) => post.idempotencyKey)).size).toBe(1);
      expect(new Set(posts.map((post) => post.bodyHash)).size).toBe(1);
      expectChargedOnce(slot);
    },
  );

  it('B3: is the same, with the same bytes, whoever makes it, and however often', () => {
    const slot = fresh();
    const item = {
      generation: 1,
      stripeCustomerId: 'cus_1',
      paymentMethodId: 'pm_1',
      amountMinor: 1500,
      currency: 'usd',
      description: 'a & b=c',
    };
    const [first, second, elsewhere] = [engine.deps, engine.deps, replica.deps].map((deps) =>
      freezeGeneration({ ...deps, worker: `worker ${String(Math.random())}` }, slot, item),
    );
    expect(second).toEqual(first);
    expect(elsewhere).toEqual(first);
  });

  it('B4: admits one charge when two requests with ids of their own ask for it, and tells both its outcome', async () => {
    const slot = await declinedThenNewCard();
    const answers = await Promise.all(
      ['one', 'two'].map((id) => decideRerun(engine.deps, order(slot, `b4-${id}`))),
    );
    expect(answers).toEqual(['accepted', 'accepted']);
    const states = await Promise.all([
      attend(engine.deps, slot),
      attend(replica.deps, slot).catch(() => attend(replica.deps, slot)),
    ]);
    expect(states).toContain('charged');
    expect(await decideRerun(engine.deps, order(slot, 'b4-three'))).toBe('alreadyCharged');
    expect(await claimSlot(replica.deps, slot)).toEqual({ kind: 'alreadyCharged' });
    expect((await readSlot(engine.db, slot)).generation).toBe(2);
    expectChargedOnce(slot);
  });
});

describe('a charge that is delivered more than once', () => {
  it('E12: charges once when a frozen worker wakes up after its successor has finished', async () => {
    const slot = await claimed();
    const frozen = Promise.withResolvers<undefined>();
    const reached = Promise.withResolvers<undefined>();
    const zombie = engine.with({
      crashPoint: async (at) => {
        if (at !== 'afterIntentCommitted') return;
        reached.resolve(undefined);
        await frozen.promise;
      },
    });
    const late = charge(zombie, { ...slot, generation: 1 }, 1);
    await reached.promise;
    expect(await attend(replica.deps, slot)).toBe('charged');
    frozen.resolve(undefined);
    const answer = await late;
    // The zombie's send went out under the same key: Stripe told it of the first.
    expect(answer.result.outcome).toBe('charged');
    expect(await record(engine.deps, slot, answer)).toEqual({ outcome: 'charged' });
    const confirms = await postsFor(slot, 'confirm');
    expect(confirms.length).toBe(2);
    expect(new Set(confirms.map((post) => post.idempotencyKey)).size).toBe(1);
    expect(confirms.filter((post) => post.executed)).toHaveLength(1);
    expectChargedOnce(slot);
  });

  it('O4, G12: charges once when it is delivered again while it runs, and again minutes later', async () => {
    const slot = await claimed();
    setFaults(engine.simulator, {
      endpoint: 'payment_intents.confirm',
      kind: 'slow',
      delayMs: SLOW_MS,
      limit: 1,
    });
    const running = charge(engine.deps, { ...slot, generation: 1 }, 1);
    const fired = () => engine.simulator.counters().faults[0]?.fired === 1;
    await until('Stripe is at work on it', async () => fired());
    const redelivered = await charge(replica.deps, { ...slot, generation: 1 }, 1).catch(
      (error: unknown) => error,
    );
    expect(redelivered).toMatchObject({ type: 'ChargeNotExecuted' });
    await record(engine.deps, slot, await running);
    engine.simulator.advanceClock(10 * 60_000);
    const again = await charge(replica.deps, { ...slot, generation: 1 }, 1);
    expect(again.result.outcome).toBe('charged');
    expect(await record(replica.deps, slot, again)).toEqual({ outcome: 'charged' });
    expectChargedOnce(slot);
  });

  it('G13: charges once when two replicas with caches and pools of their own take the slot at once', async () => {
    const slot = fresh();
    const both = [engine, replica, engine, replica, engine, replica];
    await Promise.allSettled(both.map(({ deps }) => attend(deps, slot)));
    expect(await attend(replica.deps, slot)).toBe('charged');
    const executed = (await postsFor(slot, 'confirm')).filter((post) => post.executed);
    expect(executed).toHaveLength(1);
    expectChargedOnce(slot);
  });

  it('G2: charges once when others come between the answer of Stripe and the writing of it', async () => {
    const slot = await claimed();
    const answer = await charge(engine.deps, { ...slot, generation: 1 }, 1);
    expect(await readSlot(engine.db, slot)).toMatchObject({ state: 'sent' });
    const others = Array.from({ length: 5 }, () => attend(replica.deps, slot));
    expect(new Set(await Promise.all(others))).toEqual(new Set(['charged']));
    expect(await record(engine.deps, slot, answer)).toEqual({ outcome: 'charged' });
    expect(await postsFor(slot, 'confirm')).toHaveLength(1);
    expectChargedOnce(slot);
  });

  it('I1, I7: charges once when run, rerun, sweep and settle round come for a slot at the same moment', async () => {
    const slot = fresh();
    await Promise.allSettled([
      attend(engine.deps, slot),
      attend(replica.deps, slot),
      decideRerun(engine.deps, order(slot, 'i7-a')).then(() => attend(engine.deps, slot)),
      decideRerun(replica.deps, order(slot, 'i7-b')).then(() => attend(replica.deps, slot)),
      reconcile(replica.deps, { ...slot, generation: 1 }),
    ]);
    expect(await attend(engine.deps, slot)).toBe('charged');
    expect(await readSlot(engine.db, slot)).toMatchObject({ generation: 1 });
    expectChargedOnce(slot);
  });

  it.each([
    ['afterClaimCommitted', 'accepted'],
    ['afterIntentCommitted', 'inDoubt'],
  ] as const)(
    'I7: charges once, under one key, when a rerun is ordered just then (%s: %s)',
    async (point, told) => {
      const slot = fresh();
      const answers: string[] = [];
      const ordering = engine.with({
        crashPoint: async (at) => {
          if (at !== point) return;
          answers.push(await decideRerun(replica.deps, order(slot, `i7-${point}`)));
        },
      });
      const states = [await attend(ordering, slot), await attend(replica.deps, slot)];
      expect([answers, states]).toEqual([[told], ['charged', 'charged']]);
      expect(await readSlot(engine.db, slot)).toMatchObject({ generation: 1 });
      expect(await postsFor(slot, 'confirm')).toHaveLength(1);
      expectChargedOnce(slot);
    },
  );
});

describe('an effect whose answer is lost', () => {
  const LOST: readonly Omit<FaultRule, 'id' | 'endpoint'>[] = [
    { kind: 'actThenDrop', nth: [1, 2] },
    { kind: 'actThen500', limit: 1 },
    { kind: 'status504', act: true, limit: 1 },
    { kind: 'truncate', limit: 1 },
    { kind: 'wrongContentType', limit: 1 },
  ];
  const cases = (['create', 'confirm'] as const).flatMap((operation) =>
    LOST.map((fault) => [fault.kind, operation, fault] as const),
  );

  it.each(cases)(
    'O5: happens once, under one key, when Stripe acts and then answers with %s to a %s',
    async (_kind, operation, fault) => {
      const slot = await claimed();
      setFaults(engine.simulator, { endpoint: `payment_intents.${operation}`, ...fault });
      await attend(engine.deps, slot);
      expect(engine.simulator.counters().faults[0]?.fired).toBeGreaterThan(0);
      engine.simulator.setFaults(undefined);
      expect(await attend(engine.deps, slot)).toBe('charged');
      expect(await readSlot(engine.db, slot)).toMatchObject({ generation: 1 });
      for (const sent of ['create', 'confirm'] as const) {
        const keys = (await postsFor(slot, sent)).map((post) => post.idempotencyKey);
        expect(new Set(keys).size).toBe(1);
      }
      expectChargedOnce(slot);
    },
  );
});

describe('what leaves for Stripe', () => {
  it('G7: is one create and one confirm for a slot, and no second way to charge it', async () => {
    const slot = fresh();
    const before = engine.simulator.requests().at(-1)?.seq ?? 0;
    expect(await attend(engine.deps, slot)).toBe('charged');
    const posts = engine.simulator.requests(before).filter((one) => one.method === 'POST');
    expect(posts.map((post) => post.endpoint)).toEqual([
      'payment_intents.create',
      'payment_intents.confirm',
    ]);
    expectChargedOnce(slot);
  });

  it('A9, L8: makes no customer and asks no search, also where it has to find out what became of a charge', async () => {
    const slots = [fresh(), fresh()];
    for (const [i, operation] of (['create', 'confirm'] as const).entries()) {
      const slot = slots[i] ?? fresh();
      setFaults(engine.simulator, {
        endpoint: `payment_intents.${operation}`,
        kind: 'actThen500',
        limit: 1,
      });
      expect(await attend(engine.deps, slot)).toBe('indeterminate');
      expect(await attend(engine.deps, slot)).toBe('charged');
    }
    const seen = new Set(engine.simulator.requests().map((one) => `${one.method} ${one.endpoint}`));
    expect([...seen].filter((one) => /search|customers/.test(one))).toEqual([]);
    expect([...seen].filter((one) => one.startsWith('POST')).sort()).toEqual([
      'POST payment_intents.confirm',
      'POST payment_intents.create',
    ]);
    // What others asked Search for was asked by id and by list.
    expect([...seen]).toEqual(
      expect.arrayContaining(['GET payment_intents.list', 'GET payment_intents.retrieve']),
    );
  });
});
