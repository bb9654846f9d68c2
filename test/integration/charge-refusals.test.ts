import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { decideRerun } from '../../src/activities/run.ts';
import { planRun } from '../../src/db/runs.ts';
import type { SlotRef } from '../../src/domain/ids.ts';
import type { PaymentIntentFacts } from '../../src/payments/gateway.ts';
import {
  attend,
  chargesOf,
  customersOf,
  driveCharge,
  gatewayWith,
  insertCustomers,
  postsOf,
  readSlot,
  runRef,
  setFaults,
  slotRef,
  startEngine,
  TEST_KEY,
  type Engine,
} from '../support/engine.ts';
import { behindWire, isConfirm } from '../support/wire-gateway.ts';

const ids = Array.from({ length: 40 }, (_, i) => `c${String(i).padStart(2, '0')}`);
let engine: Engine;
const { claimed } = customersOf(() => engine, ids);

beforeAll(async () => {
  engine = await startEngine();
  await engine.plan(ids.map((id) => ({ id })));
});
afterEach(() => engine.simulator.setFaults(undefined));
afterAll(() => engine.close());

let specials = 0;

describe('a refusal after a lost reply', () => {
  it('P: is indeterminate when the cap refuses the resend of a confirm whose reply was lost', async () => {
    const slot = await claimed();
    let confirms = 0;
    const deps = await behindWire(engine, ({ path }) => {
      if (!isConfirm(path)) return 'forward';
      confirms += 1;
      if (confirms === 1) return 'forwardThenClose';
      return { status: 402, body: { error: { type: 'vault_error', code: 'cap_exceeded' } } };
    });
    const { result } = await driveCharge(deps, slot);
    expect(result?.result).toMatchObject({ outcome: 'indeterminate', reason: 'cap_exceeded' });
  });

  it.each([
    [400, '{"error":{"type":"idempotency_er'],
    [402, '{"error":{"type":"vault_er'],
  ])('asks again when the body of a %i cannot be read', async (status, raw) => {
    const slot = await claimed();
    let confirms = 0;
    const deps = await behindWire(engine, ({ path }) => {
      if (!isConfirm(path)) return 'forward';
      confirms += 1;
      return confirms === 1 ? { status, raw } : 'forward';
    });
    const driven = await driveCharge(deps, slot);
    expect(driven.failures).toEqual(['ChargeIndeterminate']);
    expect(driven.result?.result.outcome).toBe('charged');
  });
});

describe('a refusal in time', () => {
  it.each(['status409', 'status429'] as const)(
    'F1, F2, O6: keeps the key and charges once when a %s comes twice and then a success',
    async (kind) => {
      const slot = await claimed();
      setFaults(engine.simulator, { endpoint: 'payment_intents.confirm', kind, nth: [1, 2] });
      const driven = await driveCharge(engine.deps, slot);
      expect(driven.failures).toEqual(['ChargeNotExecuted', 'ChargeNotExecuted']);
      expect(driven.result?.result.outcome).toBe('charged');
      const { idempotency_key: key } = await readSlot(engine.db, slot);
      const posts = postsOf(engine.simulator, 'confirm').filter(
        (post) => post.idempotencyKey === key,
      );
      expect(posts).toHaveLength(3);
      expect(new Set(posts.map((post) => post.attemptId)).size).toBe(3);
      expect(chargesOf(engine.simulator, slot.customerId)).toBe(1);
    },
  );

  it('O6: keeps the key when an object is locked three times', async () => {
    const slot = await claimed();
    setFaults(engine.simulator, {
      endpoint: 'payment_intents.create',
      kind: 'status429',
      reason: 'lock_timeout',
      nth: [1, 2, 3],
    });
    const driven = await driveCharge(engine.deps, slot);
    expect(driven.failures).toEqual(Array.from({ length: 3 }, () => 'ChargeNotExecuted'));
    const keys = postsOf(engine.simulator, 'create')
      .slice(-4)
      .map((post) => post.idempotencyKey);
    expect(new Set(keys).size).toBe(1);
    expect(chargesOf(engine.simulator, slot.customerId)).toBe(1);
    expect(engine.simulator.ledger({ customer: slot.customerId }).entries).toHaveLength(1);
  });

  it('A1, A4: is indeterminate, and looks up, when the key was used with other parameters', async () => {
    const slot = await claimed();
    const create = await engine.db
      .selectFrom('charge_generations')
      .select(['idempotency_key', 'request_body'])
      .where('customer_id', '=', slot.customerId)
      .where('operation', '=', 'create')
      .executeTakeFirstOrThrow();
    await fetch(`${engine.simulator.url}/v1/payment_intents`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${TEST_KEY}`, 'Idempotency-Key': create.idempotency_key },
      body: new URLSearchParams(create.request_body.replace('amount=1500', 'amount=1501')),
    });
    const before = engine.simulator.ledger().entries.length;
    expect(await attend(engine.deps, slot)).toBe('indeterminate');
    expect(await readSlot(engine.db, slot)).toMatchObject({
      reason: 'idempotency_error',
      generation: 1,
    });
    expect(await attend(engine.deps, slot)).toBe('indeterminate');
    expect(engine.simulator.requests().some((one) => one.endpoint === 'payment_intents.list')).toBe(
      true,
    );
    expect(engine.simulator.ledger().entries).toHaveLength(before);
    expect(chargesOf(engine.simulator, slot.customerId)).toBe(0);
  });

  it('is misconfigured, for this customer alone, when the payment method does not exist', async () => {
    const slot = await special('pm_missing_one');
    expect(await attend(engine.deps, slot)).toBe('misconfigured');
    expect(await readSlot(engine.db, slot)).toMatchObject({ charge_id: null, generation: 1 });
  });
});

describe('a decline', () => {
  it.each([
    ['pm_card_declined_insufficient_funds', 'insufficient_funds', 'try_again_later'],
    ['pm_card_declined_expired_card', 'expired_card', 'needs_new_card'],
    ['pm_card_declined_fraudulent', 'fraudulent', 'never'],
    ['pm_card_declined_generic_decline', 'generic_decline', 'no_automatic_rerun'],
    ['pm_card_authenticationRequired', 'authentication_required', 'customer_action'],
  ])(
    'records code and advice of %s, and is not tried again by itself',
    async (method, reason, advice) => {
      const slot = await special(method);
      expect(await attend(engine.deps, slot)).toBe('declined');
      const before = engine.simulator.requests().length;
      expect(await attend(engine.deps, slot)).toBe('declined');
      expect(engine.simulator.requests()).toHaveLength(before);
      expect(await readSlot(engine.db, slot)).toMatchObject({ reason, advice, charge_id: null });
    },
  );

  it('is indeterminate when the bank calls it a duplicate of another payment', async () => {
    const slot = await special('pm_card_declined_duplicate_transaction');
    expect(await attend(engine.deps, slot)).toBe('indeterminate');
  });

  it('C1: is charged by a rerun with a new card, under the key of generation 2, on the same PaymentIntent', async () => {
    const slot = await special('pm_card_visa_chargeDeclined');
    await attend(engine.deps, slot);
    const first = await readSlot(engine.db, slot);
    await newCard(slot, 'pm_card_visa');
    expect(await rerun(slot)).toBe('accepted');
    expect(await attend(engine.deps, slot)).toBe('charged');
    const second = await readSlot(engine.db, slot);
    expect(second.generation).toBe(2);
    expect(second.idempotency_key).not.toBe(first.idempotency_key);
    expect(second.payment_intent_id).toBe(first.payment_intent_id);
    const { entries } = engine.simulator.ledger({ customer: slot.customerId });
    expect(entries).toHaveLength(1);
    expect(entries[0]?.charges.map((one) => one.status).sort()).toEqual(['failed', 'succeeded']);
  });

  it('C5: charges once when the reply of a rerun is lost', async () => {
    const slot = await special('pm_card_visa_chargeDeclined');
    await attend(engine.deps, slot);
    await newCard(slot, 'pm_card_visa');
    await rerun(slot);
    setFaults(engine.simulator, {
      endpoint: 'payment_intents.confirm',
      kind: 'actThenDrop',
      nth: [1, 2],
    });
    expect(await attend(engine.deps, slot)).toBe('charged');
    expect(chargesOf(engine.simulator, slot.customerId)).toBe(1);
  });

  it('does not read the decline of generation 1 as the answer to generation 2', async () => {
    const slot = await special('pm_card_visa_chargeDeclined');
    await attend(engine.deps, slot);
    await newCard(slot, 'pm_card_visa');
    await rerun(slot);
    setFaults(engine.simulator, {
      endpoint: 'payment_intents.confirm',
      kind: 'resetBefore',
      nth: [1, 2],
    });
    const driven = await driveCharge(engine.deps, slot, { generation: 2, attempts: 1 });
    expect(driven.failures).toEqual(['ChargeIndeterminate']);
    expect(await attend(engine.deps, slot)).toBe('charged');
  });

  it('A5, A10: sends the frozen bytes again when card and amount change between two attempts', async () => {
    const slot = await claimed();
    setFaults(engine.simulator, {
      endpoint: 'payment_intents.create',
      kind: 'status503',
      limit: 1,
    });
    await driveCharge(engine.deps, slot, { attempts: 1 });
    await newCard(slot, 'pm_card_mastercard');
    await engine.db
      .updateTable('customers')
      .set({ amount_minor: 9_900, description: 'new' })
      .where('customer_id', '=', slot.customerId)
      .execute();
    expect(await attend(engine.deps, slot)).toBe('charged');
    const posts = postsOf(engine.simulator, 'create').slice(-2);
    expect(posts[0]?.idempotencyKey).toBe(posts[1]?.idempotencyKey);
    expect(posts[0]?.bodyHash).toBe(posts[1]?.bodyHash);
    expect(engine.simulator.ledger({ customer: slot.customerId }).entries[0]?.amount).toBe(1500);
  });
});

describe('a payment that is not final', () => {
  it.each([
    ['pm_usBankAccount_success', 'charged'],
    ['pm_usBankAccount_processingFails', 'declined'],
  ])('stays indeterminate while %s is processing and ends %s', async (method, end) => {
    const slot = await special(method);
    expect(await attend(engine.deps, slot)).toBe('indeterminate');
    expect(await attend(engine.deps, slot)).toBe('indeterminate');
    engine.simulator.advanceClock(120_000);
    expect(await attend(engine.deps, slot)).toBe(end);
  });
});

describe('a reply that is not ours', () => {
  const swap = (parts: Partial<PaymentIntentFacts>) =>
    gatewayWith(engine.deps.gateway, {
      async createPaymentIntent(send) {
        const reply = await engine.deps.gateway.createPaymentIntent(send);
        return reply.kind === 'intent'
          ? { ...reply, intent: { ...reply.intent, ...parts } }
          : reply;
      },
    });

  it.each<[string, Partial<PaymentIntentFacts>]>([
    ['reply_for_another_customer', { customer: 'cus_other' }],
    ['reply_with_another_amount', { amountMinor: 1501 }],
    ['reply_in_another_currency', { currency: 'eur' }],
    [
      'reply_for_another_slot',
      {
        metadata: {
          chargeonce_namespace: 'base',
          chargeonce_customer: 'c00',
          chargeonce_period: '2026-08',
        },
      },
    ],
  ])('I13: is indeterminate (%s) and confirms nothing', async (reason, parts) => {
    const slot = await claimed();
    expect(await attend(engine.with({ gateway: swap(parts) }), slot)).toBe('indeterminate');
    expect(await readSlot(engine.db, slot)).toMatchObject({ reason, payment_intent_id: null });
    expect(chargesOf(engine.simulator, slot.customerId)).toBe(0);
  });

  it('I13: does not take the success of another PaymentIntent for this one', async () => {
    const slot = await claimed();
    const other = await claimed();
    await attend(engine.deps, other);
    const paid = await engine.deps.gateway.retrievePaymentIntent(
      (await readSlot(engine.db, other)).payment_intent_id ?? '',
    );
    const gateway = gatewayWith(engine.deps.gateway, {
      async confirmPaymentIntent(id, send) {
        const reply = await engine.deps.gateway.confirmPaymentIntent(id, send);
        return reply.kind === 'intent' ? { ...reply, intent: paid } : reply;
      },
    });
    expect(await attend(engine.with({ gateway }), slot)).toBe('indeterminate');
    expect(await attend(engine.deps, slot)).toBe('charged');
    expect((await readSlot(engine.db, slot)).payment_intent_id).not.toBe(paid.id);
  });
});

/** A customer of the plan whose payment method was another one when the plan was made. */
async function special(method: string): Promise<SlotRef> {
  specials += 1;
  const run = runRef(`2027-01-${String(specials).padStart(2, '0')}`);
  await insertCustomers(engine.db, [{ id: `special${specials}`, paymentMethod: method }]);
  await planRun(engine.db, run, 'test');
  return slotRef(`special${specials}`, run);
}

async function newCard(slot: SlotRef, method: string): Promise<void> {
  await engine.db
    .updateTable('customers')
    .set({ payment_method_id: method })
    .where('customer_id', '=', slot.customerId)
    .execute();
}

function rerun(slot: SlotRef) {
  const order = {
    ...slot,
    requestId: `r-${slot.customerId}-${slot.period}`,
    operator: 'olga',
    reason: 'new card',
  };
  return decideRerun(engine.deps, order);
}
