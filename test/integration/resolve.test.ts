import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { claimSlot } from '../../src/activities/claim-slot.ts';
import { decideRerun } from '../../src/activities/run.ts';
import { readDossier, listInReview } from '../../src/db/dossier.ts';
import { resolveSlot, type Resolution } from '../../src/db/resolutions.ts';
import { noteUnknown } from '../../src/db/reviews.ts';
import { listSweepSlots } from '../../src/db/sweep.ts';
import { setControl } from '../../src/db/runs.ts';
import type { SlotRef } from '../../src/domain/ids.ts';
import { checkAbsent, checkCharge } from '../../src/payments/check-resolution.ts';
import {
  ageSends,
  attend,
  chargesOf,
  customersOf,
  readSlot,
  setFaults,
  startEngine,
  type Engine,
} from '../support/engine.ts';
import { runRef, slotRef } from '../support/names.ts';

const ids = Array.from({ length: 30 }, (_, i) => `v${String(i).padStart(2, '0')}`);
let engine: Engine;
const { claimed } = customersOf(() => engine, ids);

beforeAll(async () => {
  engine = await startEngine();
  await engine.plan(ids.map((id) => ({ id })));
});
afterEach(() => engine.simulator.setFaults(undefined));
afterAll(() => engine.close());

const said = (parts: Partial<Resolution> = {}): Resolution => ({
  verdict: { as: 'absent' },
  evidence: 'nothing in the dashboard, ticket 4711',
  operator: 'olga',
  approvers: 1,
  ...parts,
});

/** A slot in review: its confirm, or create, was lost, before or after it took effect. */
async function inReview(
  lost: 'resetBefore' | 'actThenDrop' = 'resetBefore',
  operation: 'create' | 'confirm' = 'confirm',
): Promise<SlotRef> {
  const slot = await claimed();
  setFaults(engine.simulator, { endpoint: `payment_intents.${operation}`, kind: lost, rate: 1 });
  await attend(engine.deps, slot, 1);
  engine.simulator.setFaults(undefined);
  await ageSends(engine.db, slot, '80 hours');
  await noteUnknown(engine.db, slot, {
    generation: 1,
    reason: 'look_up_failed',
    reviewAfterHours: 72,
  });
  expect(await readSlot(engine.db, slot)).toMatchObject({ state: 'in_review' });
  return slot;
}

const rerun = (slot: SlotRef, requestId: string) =>
  decideRerun(engine.deps, { ...slot, requestId, operator: 'olga', reason: 'resolved' });

async function actionsOf(slot: SlotRef): Promise<string[]> {
  const rows = await engine.db
    .selectFrom('audit_log')
    .select('action')
    .where('customer_id', '=', slot.customerId)
    .orderBy('id')
    .execute();
  return rows.map((row) => row.action);
}

describe('resolving a slot as absent', () => {
  it('closes its generation, and the rerun after it charges once on the same PaymentIntent', async () => {
    const slot = await inReview();
    const { payment_intent_id: intent } = await readSlot(engine.db, slot);
    expect(await rerun(slot, `${slot.customerId}-early`)).toBe('inDoubt');
    expect(await resolveSlot(engine.db, slot, said())).toEqual({ kind: 'decided', generation: 1 });
    expect(await rerun(slot, `${slot.customerId}-late`)).toBe('accepted');
    expect(await attend(engine.deps, slot)).toBe('charged');
    expect(await readSlot(engine.db, slot)).toMatchObject({
      generation: 2,
      payment_intent_id: intent,
    });
    expect(chargesOf(engine.simulator, slot.customerId)).toBe(1);
    expect(await actionsOf(slot)).toEqual([
      'slot.indeterminate',
      'slot.in_review',
      'rerun.inDoubt',
      'slot.resolved_absent',
      'rerun.accepted',
      'slot.charged',
    ]);
  });

  it.each(['create', 'confirm'] as const)(
    'bills nobody again before a rerun is ordered, however often Stripe shows no effect of the %s',
    async (operation) => {
      const slot = await inReview('resetBefore', operation);
      await resolveSlot(engine.db, slot, said());
      const before = await readSlot(engine.db, slot);
      for (let looks = 0; looks < 3; looks += 1) {
        await sleep(40);
        await attend(engine.deps, slot);
      }
      expect(await readSlot(engine.db, slot)).toEqual(before);
      expect(before).toMatchObject({ reason: 'resolved_absent', advice: 'rerun', generation: 1 });
      expect(chargesOf(engine.simulator, slot.customerId)).toBe(0);
    },
  );

  it('is overtaken by a success that Stripe shows after all', async () => {
    const slot = await inReview('actThenDrop');
    await resolveSlot(engine.db, slot, said());
    expect(await attend(engine.deps, slot)).toBe('charged');
    expect(chargesOf(engine.simulator, slot.customerId)).toBe(1);
  });

  it('charges once even when the person was wrong', async () => {
    const slot = await inReview('actThenDrop');
    await resolveSlot(engine.db, slot, said());
    expect(await rerun(slot, `${slot.customerId}-wrong`)).toBe('accepted');
    expect(await attend(engine.deps, slot)).toBe('charged');
    expect(chargesOf(engine.simulator, slot.customerId)).toBe(1);
  });

  it('is contradicted by a PaymentIntent that has succeeded', async () => {
    const slot = await inReview('actThenDrop');
    const dossier = await readDossier(engine.db, slot);
    if (dossier === null) throw new Error('no dossier');
    expect(await checkAbsent(engine.deps.gateway, dossier)).toMatch(
      /succeeded: that is no absence/,
    );
  });

  it('decides once when ten say so at once', async () => {
    const slot = await inReview();
    const answers = await Promise.all(
      Array.from({ length: 10 }, (_, i) =>
        resolveSlot(engine.db, slot, said({ operator: `op${i}` })),
      ),
    );
    expect(answers.filter((answer) => answer.kind === 'decided')).toHaveLength(1);
    expect(answers.filter((answer) => answer.kind === 'notOpen')).toHaveLength(9);
  });
});

describe('resolving a slot as charged', () => {
  it('takes the charge that Stripe confirms, and nothing can charge it again', async () => {
    const slot = await inReview('actThenDrop');
    const dossier = await readDossier(engine.db, slot);
    const chargeId = engine.simulator.ledger({ customer: slot.customerId }).entries[0]?.charge;
    if (dossier === null || chargeId == null) throw new Error('nothing to resolve');
    const checked = await checkCharge(engine.deps.gateway, { ...dossier, ...slot }, chargeId);
    if (!checked.ok) throw new Error(checked.problem);
    const verdict = { as: 'charged', chargeId, paymentIntentId: checked.paymentIntentId } as const;
    expect(await resolveSlot(engine.db, slot, said({ verdict }))).toMatchObject({
      kind: 'decided',
    });
    expect(await readSlot(engine.db, slot)).toMatchObject({
      state: 'charged',
      charge_id: chargeId,
    });
    expect(await rerun(slot, `${slot.customerId}-again`)).toBe('alreadyCharged');
    expect(await resolveSlot(engine.db, slot, said())).toEqual({
      kind: 'notOpen',
      state: 'charged',
    });
  });

  it('refuses a charge of another customer, another amount or another PaymentIntent', async () => {
    const mine = await inReview('actThenDrop');
    const other = await inReview('actThenDrop');
    const dossier = await readDossier(engine.db, mine);
    const foreign = engine.simulator.ledger({ customer: other.customerId }).entries[0]?.charge;
    if (dossier === null || foreign == null) throw new Error('nothing to compare');
    const { gateway } = engine.deps;
    const problem = async (parts: Partial<typeof dossier>, slot = mine): Promise<string> => {
      const checked = await checkCharge(gateway, { ...dossier, ...slot, ...parts }, foreign);
      return checked.ok ? '' : checked.problem;
    };
    expect(await problem({})).toMatch(/is a charge of cus_/);
    const theirs = { stripeCustomerId: `cus_${other.customerId}` };
    expect(await problem({ ...theirs, amountMinor: 1 })).toMatch(/over 1500 usd/);
    expect(await problem(theirs)).toMatch(/this slot owns pi_/);
    const unknown = { ...theirs, paymentIntentId: null };
    expect(await problem(unknown)).toMatch(/pays v\d+ in 2026-09 \(base\), by the metadata/);
    const october = { ...other, period: runRef('2026-10').period };
    expect(await problem(unknown, october)).toMatch(/pays v\d+ in 2026-09/);
    expect(await problem(unknown, other)).toBe('');
  });
});

describe('the two-person rule', () => {
  it('decides only when somebody else says the same', async () => {
    const slot = await inReview();
    const two = { approvers: 2 };
    expect(await resolveSlot(engine.db, slot, said(two))).toEqual({ kind: 'proposed', by: 'olga' });
    expect(await resolveSlot(engine.db, slot, said(two))).toEqual({ kind: 'proposed', by: 'olga' });
    expect(await readSlot(engine.db, slot)).toMatchObject({ state: 'in_review' });
    const otherVerdict = { as: 'charged', chargeId: 'ch_1', paymentIntentId: 'pi_1' } as const;
    expect(
      await resolveSlot(engine.db, slot, said({ ...two, operator: 'omar', verdict: otherVerdict })),
    ).toEqual({ kind: 'proposed', by: 'omar' });
    expect(await resolveSlot(engine.db, slot, said({ ...two, operator: 'pia' }))).toEqual({
      kind: 'decided',
      generation: 1,
    });
  });
});

describe('what cannot be resolved', () => {
  it('is a slot whose key may still be sent: Stripe answers that by itself', async () => {
    const slot = await claimed();
    setFaults(engine.simulator, {
      endpoint: 'payment_intents.confirm',
      kind: 'resetBefore',
      rate: 1,
    });
    await attend(engine.deps, slot, 1);
    expect(await resolveSlot(engine.db, slot, said())).toEqual({ kind: 'tooEarly' });
  });

  it('is a slot that has its answer, and one that nobody has claimed', async () => {
    const slot = await claimed();
    await attend(engine.deps, slot);
    expect(await resolveSlot(engine.db, slot, said())).toEqual({
      kind: 'notOpen',
      state: 'charged',
    });
    const nobody = slotRef('nobody', slot);
    expect(await resolveSlot(engine.db, nobody, said())).toEqual({ kind: 'notOpen', state: null });
  });
});

describe('the dossier', () => {
  it('tells every send, every answer, every look and every decision, in order', async () => {
    const slot = await inReview();
    const dossier = await readDossier(engine.db, slot);
    const told = dossier?.events.map((event) => event.what) ?? [];
    expect(told).toEqual([
      'sent',
      'answered',
      'sent',
      'answered',
      'sent',
      'answered',
      'slot.indeterminate',
      'slot.in_review',
    ]);
    const waiting = await listInReview(engine.db, slot, 100);
    expect(waiting.map((one) => one.customerId)).toContain(slot.customerId);
  });
});

describe('the list of the sweep', () => {
  it('leaves alone what somebody looked at just now, and only reads where the run is held', async () => {
    const slot = await inReview();
    const listed = async (everything: boolean) =>
      (await listSweepSlots(engine.db, { after: null, limit: 100, everything })).find(
        (one) => one.customerId === slot.customerId,
      );
    expect(await listed(false)).toBeUndefined();
    expect(await listed(true)).toMatchObject({ readOnly: false });
    await setControl(engine.db, runRef(), { control: 'stopped', note: 'stopped by olga: enough' });
    expect(await listed(true)).toMatchObject({ readOnly: true });
    await setControl(engine.db, runRef(), { control: 'running', note: null });
  });

  it('is asked again at the claim, so that a run held since then is only read', async () => {
    const slot = { ...(await inReview()), unlessHeld: true };
    await setControl(engine.db, runRef(), { control: 'paused', note: 'paused by olga: look' });
    expect(await claimSlot(engine.deps, slot)).toEqual({ kind: 'held' });
    await setControl(engine.db, runRef(), { control: 'running', note: null });
    expect(await claimSlot(engine.deps, slot)).toMatchObject({ kind: 'inDoubt' });
  });
});
