import { sql } from 'kysely';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Simulator } from '../../src/simulator/index.ts';
import { planRefunds } from '../../src/refunds/plan-refunds.ts';
import { readSlot, refusedBy, runRef, slotRef } from '../support/engine.ts';
import { foreignCharge, paidTwice, type PaidTwice } from '../support/refunds.ts';
import { startUnlimited } from './simulator/support.ts';

const slot = slotRef('cust_1', runRef('2026-11'));

let simulator: Simulator;
let world: PaidTwice;
beforeAll(async () => {
  simulator = await startUnlimited();
});
afterAll(() => simulator.close());
beforeEach(async () => {
  world = await paidTwice(simulator);
});
afterEach(() => world.end());

describe('executing a plan', () => {
  it('gives the extra charge back, keeps the one that the slot counts on, and finds nothing afterwards', async () => {
    const planId = await world.plan();
    expect(await world.states(planId)).toEqual(['planned']);
    expect(world.posts()).toHaveLength(0);
    expect(await world.execute(planId)).toMatchObject({
      kind: 'executed',
      notTried: 0,
      stoppedBy: null,
    });
    expect(await world.states(planId)).toEqual(['refunded']);
    expect(await world.givenBack(world.extra)).toEqual({ refunds: 1, amount: 1500 });
    expect(await world.givenBack(world.ours)).toEqual({ refunds: 0, amount: 0 });
    const { duplicates, settled } = await world.find();
    expect(duplicates).toEqual([]);
    expect(settled.refundedMinorByCurrency).toEqual({ usd: 1500 });
    expect(await world.audit()).toEqual([
      'alice refund.planned  ',
      'bob refund.ordered  charged twice',
      'bob refund.refunded 1500 ',
    ]);
  });

  it('sends nothing when it is executed again', async () => {
    const planId = await world.plan();
    await world.execute(planId);
    const sent = world.posts().length;
    expect(await world.execute(planId)).toMatchObject({ kind: 'executed', lines: [] });
    expect(world.posts()).toHaveLength(sent);
  });

  it('C6: gives two charges of one sum back under two keys', async () => {
    const second = await world.chargeAgain();
    const planId = await world.plan();
    await world.execute(planId);
    expect(await world.givenBack(world.extra)).toEqual({ refunds: 1, amount: 1500 });
    expect(await world.givenBack(second)).toEqual({ refunds: 1, amount: 1500 });
    expect(new Set(world.posts().map(({ idempotencyKey }) => idempotencyKey)).size).toBe(2);
  });

  it('leaves likely lines alone until the order includes them', async () => {
    const silent = await foreignCharge(world.stripe, 'cust_2');
    const later = await foreignCharge(world.stripe, 'cust_2');
    const planId = await world.plan();
    await world.execute(planId);
    expect((await world.givenBack(silent)).refunds + (await world.givenBack(later)).refunds).toBe(
      0,
    );
    await world.execute(planId, world.deps, { includeLikely: true });
    const both = [await world.givenBack(silent), await world.givenBack(later)];
    expect(both.map(({ amount }) => amount).toSorted((a, b) => a - b)).toEqual([0, 1500]);
  });

  it('refuses a plan of another account before anything is sent', async () => {
    const planId = await world.plan();
    const answer = await world.execute(planId, world.with({ account: 'acct_other' }));
    expect(answer).toEqual({ kind: 'otherEnvironment' });
    expect(world.posts()).toHaveLength(0);
  });
});

describe('before the first send the charges are read again', () => {
  it.each<[string, string, () => Promise<unknown>]>([
    [
      'the extra charge was given back',
      'skipped refunded_meanwhile',
      () => world.stripe.refunds.create({ charge: world.extra }),
    ],
    [
      'a part of the extra charge was given back',
      'skipped refunded_meanwhile',
      () => world.stripe.refunds.create({ charge: world.extra, amount: 500 }),
    ],
    [
      'the kept charge was given back',
      'skipped kept_charge_is_gone',
      () => world.stripe.refunds.create({ charge: world.ours }),
    ],
  ])('%s meanwhile: nothing is sent', async (_what, state, meanwhile) => {
    const planId = await world.plan();
    await meanwhile();
    const before = world.posts().length;
    await world.execute(planId);
    expect(await world.states(planId)).toEqual([state]);
    expect(world.posts()).toHaveLength(before);
  });

  it('leaves a charge that became disputed to the bank', async () => {
    const disputed = await world.chargeAgain({ payment_method: 'pm_card_createDispute' });
    const { duplicates, settled } = await world.find();
    expect(duplicates.flatMap(({ extras }) => extras.map(({ chargeId }) => chargeId))).toEqual([
      world.extra,
    ]);
    expect(settled.disputed).toBe(1);
    const found = duplicates.map((one) => ({
      ...one,
      extras: one.extras.map((found) => ({ ...found, chargeId: disputed })),
    }));
    const planId = await planRefunds(world.deps, found, 'alice');
    await world.execute(planId ?? 0);
    expect(await world.states(planId ?? 0)).toEqual(['skipped disputed']);
  });
});

describe('the database refuses', () => {
  const insert = (more: Record<string, unknown>) =>
    world.engine.db.transaction().execute(async (trx) => {
      const { plan_id: planId } = await trx
        .insertInto('refund_plans')
        .values({
          stripe_account: 'a',
          live_mode: false,
          fingerprint: String(more['charge_id']),
          planned_by: 'x',
        })
        .returning('plan_id')
        .executeTakeFirstOrThrow();
      await trx
        .insertInto('refund_plan_lines')
        .values({
          plan_id: planId,
          line: 1,
          kind: 'certain',
          why: 'x',
          period: '2026-11',
          charge_id: world.extra,
          kept_charge_id: world.ours,
          amount_minor: 1500,
          currency: 'usd',
          refunded_before_minor: 0,
          idempotency_key: `k${planId}`,
          request_body: 'b',
          api_version: 'v',
          ...more,
        })
        .execute();
    });

  it('to plan the charge that a slot counts on, by charge or by PaymentIntent', async () => {
    const kept = { kept_charge_id: world.extra };
    expect(await refusedBy(insert({ ...kept, charge_id: world.ours }))).toBe(
      'slot_charge_is_never_refunded',
    );
    const intent = (await readSlot(world.engine.db, slot)).payment_intent_id;
    const byIntent = insert({ ...kept, charge_id: 'ch_other', payment_intent_id: intent });
    expect(await refusedBy(byIntent)).toBe('slot_charge_is_never_refunded');
  });

  it('a send for a charge that a slot has come to count on since it was planned', async () => {
    await insert({ charge_id: 'ch_late', payment_intent_id: 'pi_late' });
    await world.engine.plan([{ id: 'cust_9' }], runRef('2026-12'));
    await sql`INSERT INTO billing_charges (namespace, period, customer_id, state, idempotency_key, payment_intent_id, charge_id, settled_at)
      VALUES ('base', '2026-12', 'cust_9', 'charged', 'k', 'pi_late', 'ch_late', now())`.execute(
      world.engine.db,
    );
    const send = sql`UPDATE refund_plan_lines SET state = 'sent', first_sent_at = now()`.execute(
      world.engine.db,
    );
    expect(await refusedBy(send)).toBe('slot_charge_is_never_refunded');
  });

  it('to give back what another plan has kept and the reverse', async () => {
    await insert({ charge_id: 'ch_a', kept_charge_id: 'ch_b' });
    await insert({ charge_id: 'ch_b', kept_charge_id: 'ch_a' });
    const send = (charge: string) =>
      sql`UPDATE refund_plan_lines SET state = 'sent', first_sent_at = now() WHERE charge_id = ${charge}`.execute(
        world.engine.db,
      );
    const both = await Promise.all([refusedBy(send('ch_a')), refusedBy(send('ch_b'))]);
    expect(both.filter((one) => one !== null)).toEqual(['kept_charge_stays']);
  });

  it('other bytes under a key, a way back, and deletion', async () => {
    const planId = await world.plan();
    const change = (set: string) =>
      refusedBy(
        sql`UPDATE refund_plan_lines SET ${sql.raw(set)} WHERE plan_id = ${planId}`.execute(
          world.engine.db,
        ),
      );
    expect(await change('amount_minor = 1')).toBe('refund_is_frozen');
    expect(await change(`request_body = 'amount=1'`)).toBe('refund_is_frozen');
    await world.execute(planId);
    expect(await change(`state = 'planned', finished_at = NULL, refund_id = NULL`)).not.toBeNull();
    const gone = sql`DELETE FROM refund_plan_lines`.execute(world.engine.db);
    await expect(gone).rejects.toThrow('append-only');
  });
});
