import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { charge } from '../../src/activities/charge.ts';
import { reconcile } from '../../src/activities/reconcile.ts';
import type { SlotRef } from '../../src/domain/ids.ts';
import { createStripeGateway } from '../../src/payments/stripe-gateway.ts';
import { LookupFailed } from '../../src/payments/gateway.ts';
import type { FaultRule } from '../../src/simulator/index.ts';
import {
  ageSends,
  attend,
  chargesOf,
  customersOf,
  driveCharge,
  gatewayWith,
  postsOf,
  readSlot,
  setFaults,
  startEngine,
  TEST_KEY,
  type Engine,
} from '../support/engine.ts';

const ids = Array.from({ length: 40 }, (_, i) => `c${String(i).padStart(2, '0')}`);
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

const postsFor = (key: string | null, operation: 'create' | 'confirm') =>
  postsOf(engine.simulator, operation).filter((post) => post.idempotencyKey === key);

/** Every key of the slot's customer, with the requests that carried it. */
async function keysOf(slot: SlotRef) {
  const rows = await engine.db
    .selectFrom('charge_generations')
    .select(['idempotency_key', 'operation', 'generation'])
    .where('customer_id', '=', slot.customerId)
    .execute();
  return rows.map((row) => ({
    ...row,
    posts: postsFor(row.idempotency_key, row.operation),
  }));
}

describe('a reply that is lost', () => {
  it('E1: charges once when the socket drops after Stripe has charged', async () => {
    const slot = await claimed();
    faults({ endpoint: 'payment_intents.confirm', kind: 'actThenDrop', nth: 1 });
    expect(await attend(engine.deps, slot)).toBe('charged');
    expect(chargesOf(engine.simulator, slot.customerId)).toBe(1);
    expect(await readSlot(engine.db, slot)).toMatchObject({ generation: 1 });
  });

  it('O1, O2: records both sends, each with its own attempt id, when the SDK sends again by itself', async () => {
    const slot = await claimed();
    faults({ endpoint: 'payment_intents.confirm', kind: 'actThenDrop', nth: 1 });
    await attend(engine.deps, slot);
    const confirm = (await keysOf(slot)).find((key) => key.operation === 'confirm');
    expect(confirm?.posts).toHaveLength(2);
    const recorded = await engine.db
      .selectFrom('charge_attempts')
      .leftJoin(
        'charge_attempt_answers as answer',
        'answer.attempt_id',
        'charge_attempts.attempt_id',
      )
      .select(['charge_attempts.attempt_id', 'answer.http_status', 'answer.replayed'])
      .where('idempotency_key', '=', confirm?.idempotency_key ?? '')
      .orderBy('sent_at')
      .execute();
    expect(recorded.map((row) => row.attempt_id).sort()).toEqual(
      confirm?.posts.map((post) => post.attemptId).sort(),
    );
    expect(recorded.map((row) => [row.http_status, row.replayed])).toEqual([
      [null, false],
      [200, true],
    ]);
    expect(chargesOf(engine.simulator, slot.customerId)).toBe(1);
  });

  it('E10: keeps the slot pending after a reset, then finds the charge by a look-up, without a POST', async () => {
    const slot = await claimed();
    faults({ endpoint: 'payment_intents.confirm', kind: 'actThenDrop', nth: [1, 2] });
    await expect(charge(engine.deps, { ...slot, generation: 1 }, 1)).rejects.toMatchObject({
      type: 'ChargeIndeterminate',
      nonRetryable: false,
    });
    const pending = await readSlot(engine.db, slot);
    expect(pending).toMatchObject({ state: 'sent', generation: 1 });
    expect(await attend(engine.deps, slot)).toBe('charged');
    expect(postsFor(pending.idempotency_key, 'confirm')).toHaveLength(2);
    expect(chargesOf(engine.simulator, slot.customerId)).toBe(1);
  });

  it('E9: leaves the generation open when Stripe does not answer in time', async () => {
    const slot = await claimed();
    faults({ endpoint: 'payment_intents.create', kind: 'slow', delayMs: 3_000, limit: 1 });
    const gateway = createStripeGateway({
      apiKey: TEST_KEY,
      apiBase: engine.simulator.url,
      timeoutMs: 300,
    });
    await expect(
      charge(engine.with({ gateway }), { ...slot, generation: 1 }, 1),
    ).rejects.toMatchObject({
      type: 'ChargeIndeterminate',
    });
    gateway.close();
    const generations = await engine.db
      .selectFrom('charge_generations')
      .select(['outcome', 'operation'])
      .where('customer_id', '=', slot.customerId)
      .execute();
    expect(generations.every((generation) => generation.outcome === null)).toBe(true);
    expect(await readSlot(engine.db, slot)).toMatchObject({ state: 'sent' });
  });

  it('E8: finds a PaymentIntent whose reply was lost by its metadata, and sends the same bytes again', async () => {
    const slot = await claimed();
    faults({ endpoint: 'payment_intents.create', kind: 'actThenDrop', rate: 1 });
    expect(await attend(engine.deps, slot, 2)).toBe('indeterminate');
    engine.simulator.setFaults(undefined);
    expect(await attend(engine.deps, slot)).toBe('charged');
    const create = (await keysOf(slot)).find((key) => key.operation === 'create');
    expect(create?.posts.length).toBeGreaterThan(2);
    expect(new Set(create?.posts.map((post) => post.bodyHash)).size).toBe(1);
    const { entries } = engine.simulator.ledger({ customer: slot.customerId });
    expect(entries).toHaveLength(1);
    expect(chargesOf(engine.simulator, slot.customerId)).toBe(1);
  });

  it('finds the charge when the reply to the confirm is cut off in the middle', async () => {
    const slot = await claimed();
    faults({ endpoint: 'payment_intents.confirm', kind: 'truncate', limit: 1 });
    expect(await attend(engine.deps, slot)).toBe('charged');
    expect(chargesOf(engine.simulator, slot.customerId)).toBe(1);
  });

  it('B10: sends the same key and charges once when the work starts again after the charge', async () => {
    const slot = await claimed();
    await driveCharge(engine.deps, slot);
    const { idempotency_key: key } = await readSlot(engine.db, slot);
    expect(await attend(engine.deps, slot)).toBe('charged');
    expect(postsFor(key, 'confirm')).toHaveLength(1);
    expect(chargesOf(engine.simulator, slot.customerId)).toBe(1);
    expect(await readSlot(engine.db, slot)).toMatchObject({ idempotency_key: key, generation: 1 });
  });

  it('B7: charges once when the charge activity runs twice at the same time', async () => {
    const slot = await claimed();
    const both = await Promise.all(
      [1, 2].map((attempt) =>
        charge(engine.deps, { ...slot, generation: 1 }, attempt).catch((error: unknown) => error),
      ),
    );
    expect(both.length).toBe(2);
    expect(await attend(engine.deps, slot)).toBe('charged');
    expect(chargesOf(engine.simulator, slot.customerId)).toBe(1);
  });

  it('G6, G8, G9: charges once when 20 workers charge one slot at once, and again days later', async () => {
    const slot = await claimed();
    await Promise.allSettled(Array.from({ length: 20 }, () => attend(engine.deps, slot)));
    expect(await attend(engine.deps, slot)).toBe('charged');
    await ageSends(engine.db, slot, '5 days');
    engine.simulator.advanceClock(5 * 24 * 3_600_000);
    expect(await attend(engine.deps, slot)).toBe('charged');
    expect(chargesOf(engine.simulator, slot.customerId)).toBe(1);
    expect(engine.simulator.ledger({ customer: slot.customerId }).entries).toHaveLength(1);
  });
});

describe('a 500', () => {
  it('E11: finds the charge by a look-up when Stripe charged, said 500 and keeps saying it', async () => {
    const slot = await claimed();
    faults({ endpoint: 'payment_intents.confirm', kind: 'actThen500', limit: 1 });
    expect(await attend(engine.deps, slot)).toBe('indeterminate');
    expect(await attend(engine.deps, slot)).toBe('charged');
    expect(chargesOf(engine.simulator, slot.customerId)).toBe(1);
    expect(await readSlot(engine.db, slot)).toMatchObject({ generation: 1 });
  });

  it('confirms the PaymentIntent that was made although its create was answered with a 500', async () => {
    const slot = await claimed();
    faults({ endpoint: 'payment_intents.create', kind: 'actThen500', limit: 1 });
    expect(await attend(engine.deps, slot)).toBe('indeterminate');
    expect(await attend(engine.deps, slot)).toBe('charged');
    expect(engine.simulator.ledger({ customer: slot.customerId }).entries).toHaveLength(1);
  });

  it('stays indeterminate, without a charge, when the 500 changed nothing and the key only repeats it', async () => {
    const slot = await claimed();
    faults({ endpoint: 'payment_intents.confirm', kind: 'fail500', limit: 1 });
    expect(await attend(engine.deps, slot)).toBe('indeterminate');
    expect(await attend(engine.deps, slot)).toBe('indeterminate');
    expect(chargesOf(engine.simulator, slot.customerId)).toBe(0);
    expect(await readSlot(engine.db, slot)).toMatchObject({
      generation: 1,
      reason: 'server_error_500',
    });
  });

  it('E2: is indeterminate, never declined, when Stripe answers 503 until the retries are spent', async () => {
    const slot = await claimed();
    faults({ endpoint: 'payment_intents.confirm', kind: 'status503', rate: 1 });
    expect(await attend(engine.deps, slot)).toBe('indeterminate');
    engine.simulator.setFaults(undefined);
    expect(await attend(engine.deps, slot)).toBe('charged');
    expect(chargesOf(engine.simulator, slot.customerId)).toBe(1);
  });
});

describe('a look-up that fails', () => {
  it('E5: sends nothing and leaves the slot indeterminate', async () => {
    const slot = await claimed();
    faults({ endpoint: 'payment_intents.confirm', kind: 'actThen500', limit: 1 });
    await attend(engine.deps, slot);
    const before = engine.simulator.requests().filter((one) => one.method === 'POST').length;
    const gateway = gatewayWith(engine.deps.gateway, {
      retrievePaymentIntent: () =>
        Promise.reject(new LookupFailed('timed out', { status: null, cause: null })),
    });
    await expect(
      reconcile(engine.with({ gateway }), { ...slot, generation: 1 }),
    ).rejects.toMatchObject({
      type: 'ChargeIndeterminate',
    });
    expect(engine.simulator.requests().filter((one) => one.method === 'POST')).toHaveLength(before);
    expect(await readSlot(engine.db, slot)).toMatchObject({ state: 'indeterminate' });
  });

  it('L9: makes no PaymentIntent while the list cannot be read', async () => {
    const slot = await claimed();
    faults(
      { endpoint: 'payment_intents.create', kind: 'actThen500', limit: 1 },
      { endpoint: 'payment_intents.list', kind: 'status503', rate: 1 },
    );
    expect(await attend(engine.deps, slot)).toBe('indeterminate');
    await expect(attend(engine.deps, slot)).rejects.toMatchObject({ type: 'ChargeIndeterminate' });
    expect(engine.simulator.ledger({ customer: slot.customerId }).entries).toHaveLength(1);
  });
});
