import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { Drain } from '../../src/activities/drain.ts';
import { reconcile } from '../../src/activities/reconcile.ts';
import {
  ageSends,
  attend,
  chargesOf,
  customersOf,
  driveCharge,
  postsOf,
  readSlot,
  setFaults,
  startEngine,
  TEST_KEY,
  type Engine,
} from '../support/engine.ts';

// Each of these closes a hole that a planted bug of test/mutants came through.

const ids = ['h0', 'h1', 'h2', 'h3'];
let engine: Engine;
const { claimed } = customersOf(() => engine, ids);

beforeAll(async () => {
  engine = await startEngine();
  await engine.plan(ids.map((id) => ({ id })));
});
afterEach(() => engine.simulator.setFaults(undefined));
afterAll(() => engine.close());

describe('a key', () => {
  it.each([
    ['22 hours 59 minutes', 1],
    ['23 hours 1 minute', 0],
  ])('that was first sent %s ago is sent again %i times', async (age, times) => {
    const slot = await claimed();
    setFaults(engine.simulator, {
      endpoint: 'payment_intents.confirm',
      kind: 'resetBefore',
      nth: [1, 2],
    });
    expect((await driveCharge(engine.deps, slot, { attempts: 1 })).failures).toHaveLength(1);
    await ageSends(engine.db, slot, age);
    const before = postsOf(engine.simulator, 'confirm').length;
    await driveCharge(engine.deps, slot);
    expect(postsOf(engine.simulator, 'confirm').length - before).toBe(times);
  });
});

describe('the PaymentIntent of a lost create', () => {
  it('is not taken from another charge of the customer over the same amount', async () => {
    const slot = await claimed();
    setFaults(engine.simulator, {
      endpoint: 'payment_intents.create',
      kind: 'resetBefore',
      rate: 1,
    });
    expect(await attend(engine.deps, slot, 1)).toBe('indeterminate');
    engine.simulator.setFaults(undefined);
    // A job before us charges the same customer at the same time, without our metadata.
    const made = await fetch(`${engine.simulator.url}/v1/payment_intents`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${TEST_KEY}`, 'Idempotency-Key': 'of-another-job' },
      body: new URLSearchParams({
        amount: '1500',
        currency: 'usd',
        customer: `cus_${slot.customerId}`,
      }),
    });
    expect(made.status).toBe(200);
    expect(await reconcile(engine.deps, { ...slot, generation: 1 })).toMatchObject({
      kind: 'resumable',
      because: 'sameKey',
    });
    expect(await readSlot(engine.db, slot)).toMatchObject({ payment_intent_id: null });
    expect(await attend(engine.deps, slot)).toBe('charged');
    expect(chargesOf(engine.simulator, slot.customerId)).toBe(1);
  });
});

describe('a worker that is asked to stop', () => {
  it('sends nothing whose answer could come too late, and the next worker charges once', async () => {
    const slot = await claimed();
    const drain = new Drain({ graceMs: 1_000, answerMs: 5_000 });
    const stopping = drain.guard(
      engine.with({
        crashPoint: async (point) => {
          if (point === 'beforeCreateSent') drain.begin();
        },
      }),
    );
    const before = engine.simulator.requests().length;
    const { failures } = await driveCharge(stopping, slot, { attempts: 2 });
    expect(failures).toEqual(['WorkerStopping', 'WorkerStopping']);
    expect(engine.simulator.requests()).toHaveLength(before);
    expect(await attend(engine.deps, slot)).toBe('charged');
    expect(chargesOf(engine.simulator, slot.customerId)).toBe(1);
  });
});
