import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { claimSlot } from '../../src/activities/claim-slot.ts';
import { createBillingActivities } from '../../src/activities/index.ts';
import { decideRerun } from '../../src/activities/run.ts';
import { record } from '../../src/activities/record.ts';
import { startSend } from '../../src/db/sends.ts';
import type { ChargeOutcome, ChargeResult } from '../../src/domain/charge.ts';
import type { SlotRef } from '../../src/domain/ids.ts';
import { readSlot, slotRef, startEngine, type Engine } from '../support/engine.ts';

let engine: Engine;
let next = 0;
const ids = Array.from({ length: 30 }, (_, i) => `w${i}`);

beforeAll(async () => {
  engine = await startEngine();
  await engine.plan(ids.map((id) => ({ id })));
});
afterAll(() => engine.close());

/** A slot whose confirm is on its way. */
async function sent(): Promise<SlotRef> {
  const slot = slotRef(ids[next++] ?? 'too few customers');
  await claimSlot(engine.deps, slot);
  const { idempotency_key: key } = await readSlot(engine.db, slot);
  const attempt = { attemptId: `attempt-${slot.customerId}`, activityAttempt: 1, worker: 'test' };
  await startSend(engine.db, slot, { key: key ?? '', generation: 1, attempt });
  return slot;
}

const charged = (slot: SlotRef, chargeId = `ch_${slot.customerId}`): ChargeOutcome => ({
  outcome: 'charged',
  paymentIntentId: `pi_${slot.customerId}`,
  chargeId,
  amountMinor: 1500,
  currency: 'usd',
});
const declined = (slot: SlotRef): ChargeOutcome => ({
  outcome: 'declined',
  paymentIntentId: `pi_${slot.customerId}`,
  declinedChargeId: `ch_no_${slot.customerId}`,
  reason: 'insufficient_funds',
  advice: 'try_again_later',
});
const unknown: ChargeOutcome = { outcome: 'indeterminate', reason: 'lost', advice: 'reconcile' };
const of = (result: ChargeOutcome, generation = 1): ChargeResult => ({
  generation,
  result,
  answer: null,
});

const logOf = async (slot: SlotRef) =>
  (
    await engine.db
      .selectFrom('audit_log')
      .select('action')
      .where('customer_id', '=', slot.customerId)
      .orderBy('id')
      .execute()
  ).map((entry) => entry.action);

describe('record', () => {
  it('G11: writes a success once, whether it comes twice or 10 times at once', async () => {
    const slot = await sent();
    const results = await Promise.all(
      Array.from({ length: 10 }, () => record(engine.deps, slot, of(charged(slot)))),
    );
    expect(results).toEqual(Array.from({ length: 10 }, () => ({ outcome: 'charged' })));
    expect(await record(engine.deps, slot, of(charged(slot)))).toEqual({ outcome: 'charged' });
    expect(await logOf(slot)).toEqual(['slot.charged']);
  });

  it.each([
    ['a decline', declined],
    ['an unknown outcome', () => unknown],
    [
      'a refusal',
      (): ChargeOutcome => ({
        outcome: 'misconfigured',
        reason: 'x',
        advice: 'y',
        stopsRun: false,
      }),
    ],
    ['a block', (): ChargeOutcome => ({ outcome: 'blocked', reason: 'cap', advice: 'y' })],
  ])('H8: leaves a charged slot charged when %s comes late', async (_what, late) => {
    const slot = await sent();
    await record(engine.deps, slot, of(charged(slot)));
    expect(await record(engine.deps, slot, of(late(slot)))).toEqual({ outcome: 'charged' });
    expect(await readSlot(engine.db, slot)).toMatchObject({
      state: 'charged',
      charge_id: `ch_${slot.customerId}`,
    });
    expect(await logOf(slot)).toEqual(['slot.charged']);
  });

  it('keeps a decline when an unknown outcome of the same generation comes late', async () => {
    const slot = await sent();
    await record(engine.deps, slot, of(declined(slot)));
    expect(await record(engine.deps, slot, of(unknown))).toEqual({ outcome: 'declined' });
    expect(await readSlot(engine.db, slot)).toMatchObject({
      state: 'declined',
      reason: 'insufficient_funds',
    });
  });

  it('M8: lets no answer of an earlier generation touch a later one', async () => {
    const slot = await sent();
    await record(engine.deps, slot, of(declined(slot)));
    await decideRerun(engine.deps, {
      ...slot,
      requestId: `r-${slot.customerId}`,
      operator: 'olga',
      reason: 'x',
    });
    for (const late of [declined(slot), unknown]) {
      expect(await record(engine.deps, slot, of(late))).toEqual({ outcome: 'indeterminate' });
    }
    expect(await readSlot(engine.db, slot)).toMatchObject({
      state: 'claimed',
      generation: 2,
      reason: null,
    });
  });

  it('takes a success that Stripe shows after a decline: the slot is charged, and never charged again', async () => {
    const slot = await sent();
    await record(engine.deps, slot, of(declined(slot)));
    await createBillingActivities(engine.deps).record(slot, of(charged(slot)));
    expect(await logOf(slot)).toEqual(['slot.declined', 'slot.charged']);
    expect(await readSlot(engine.db, slot)).toMatchObject({
      state: 'charged',
      charge_id: `ch_${slot.customerId}`,
    });
  });

  it('does not keep quiet about a success of another generation than the slot is at', async () => {
    const slot = await sent();
    const late = { ...of(charged(slot)), generation: 7 };
    const work = createBillingActivities(engine.deps).record(slot, late);
    await expect(work).rejects.toMatchObject({ type: 'InvariantBroken', nonRetryable: true });
    expect(await logOf(slot)).toEqual(['slot.contradiction']);
    expect(await readSlot(engine.db, slot)).toMatchObject({ state: 'sent' });
  });

  it('does not keep quiet about a second charge of a charged slot', async () => {
    const slot = await sent();
    await record(engine.deps, slot, of(charged(slot)));
    await expect(record(engine.deps, slot, of(charged(slot, 'ch_second')))).rejects.toMatchObject({
      type: 'InvariantBroken',
    });
    expect(await readSlot(engine.db, slot)).toMatchObject({ charge_id: `ch_${slot.customerId}` });
  });

  it('I4: writes slot, generation, answer and log together or not at all', async () => {
    const slot = await sent();
    const taken = await sent();
    await record(engine.deps, taken, of(charged(taken)));
    const stolen: ChargeOutcome = charged(slot, `ch_${taken.customerId}`);
    await expect(record(engine.deps, slot, of(stolen))).rejects.toMatchObject({
      constraint: 'charge_pays_one_slot',
    });
    expect(await readSlot(engine.db, slot)).toMatchObject({ state: 'sent', charge_id: null });
    expect(await logOf(slot)).toEqual([]);
    const open = await engine.db
      .selectFrom('charge_generations')
      .select('outcome')
      .where('customer_id', '=', slot.customerId)
      .execute();
    expect(open.every((generation) => generation.outcome === null)).toBe(true);
  });
});

describe('startSend', () => {
  const attempt = (id: string) => ({ attemptId: id, activityAttempt: 1, worker: 'test' });

  it('sends nothing for a settled slot, another generation or a key that is not the slot’s', async () => {
    const slot = await sent();
    const key = (await readSlot(engine.db, slot)).idempotency_key ?? '';
    expect(
      await startSend(engine.db, slot, { key, generation: 2, attempt: attempt('no-1') }),
    ).toBeNull();
    expect(
      await startSend(engine.db, slot, { key: 'unknown', generation: 1, attempt: attempt('no-2') }),
    ).toBeNull();
    await record(engine.deps, slot, of(charged(slot)));
    expect(
      await startSend(engine.db, slot, { key, generation: 1, attempt: attempt('no-3') }),
    ).toBeNull();
    const attempts = await engine.db
      .selectFrom('charge_attempts')
      .select('attempt_id')
      .where('attempt_id', 'like', 'no-%')
      .execute();
    expect(attempts).toEqual([]);
  });

  it('does not take the key of another customer for this slot', async () => {
    const [mine, other] = [await sent(), await sent()];
    const key = (await readSlot(engine.db, other)).idempotency_key ?? '';
    expect(
      await startSend(engine.db, mine, { key, generation: 1, attempt: attempt('swap') }),
    ).toBeNull();
  });
});
