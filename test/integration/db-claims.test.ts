import { sql } from 'kysely';
import { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { claimSlot } from '../../src/activities/claim-slot.ts';
import { charge } from '../../src/activities/charge.ts';
import { createBillingActivities } from '../../src/activities/index.ts';
import { freezeGeneration } from '../../src/activities/frozen.ts';
import { decideRerun } from '../../src/activities/run.ts';
import { record } from '../../src/activities/record.ts';
import { insertClaim } from '../../src/db/slots.ts';
import { moveRun, NoCustomers, planRun, readRun } from '../../src/db/runs.ts';
import { readRunSummary } from '../../src/db/run-summary.ts';
import {
  insertCustomers,
  readSlot,
  runRef,
  slotRef,
  startEngine,
  type Engine,
} from '../support/engine.ts';
import { untilConfirmSent, untilWaiting } from '../support/db-waits.ts';
import { meetAt } from '../support/meeting.ts';

let engine: Engine;
let period = 0;

/** A period of its own for each test, so that one engine serves them all. */
function nextRun() {
  period += 1;
  return runRef(
    `20${String(10 + Math.floor(period / 12)).padStart(2, '0')}-${String((period % 12) + 1).padStart(2, '0')}`,
  );
}

beforeAll(async () => {
  engine = await startEngine({ poolSize: 60 });
  await insertCustomers(engine.db, [
    { id: 'alice' },
    { id: 'bob', amountMinor: 700, currency: 'eur' },
    { id: 'free', amountMinor: 0 },
    { id: 'cardless', paymentMethod: null },
    { id: 'poor', paymentMethod: 'pm_card_visa_chargeDeclined' },
  ]);
});
afterAll(() => engine.close());

async function planned() {
  const run = nextRun();
  await planRun(engine.db, run, 'test');
  return run;
}

describe('claimSlot', () => {
  it('G1, I5: lets one of 50 parallel claims win and tells the other 49 who has the slot', async () => {
    const slot = slotRef('alice', await planned());
    // All have seen the slot free before the first inserts, or there would be no race.
    const deps = engine.with({ crashPoint: meetAt('beforeClaimCommits', 50) });
    const answers = await Promise.all(Array.from({ length: 50 }, () => claimSlot(deps, slot)));
    expect(answers.filter((answer) => answer.kind === 'claimed')).toHaveLength(1);
    expect(answers.filter((answer) => answer.kind === 'resumed')).toHaveLength(49);
    const { n } = await engine.db
      .selectFrom('charge_generations')
      .select((select) => select.fn.countAll<number>().as('n'))
      .where('period', '=', slot.period)
      .executeTakeFirstOrThrow();
    expect(n).toBe(2);
  });

  it('N1: makes the loser read the winner in a second statement when the rival commits while it waits', async () => {
    const slot = slotRef('alice', await planned());
    const frozen = freezeGeneration(engine.deps, slot, {
      generation: 1,
      stripeCustomerId: 'cus_alice',
      paymentMethodId: 'pm_card_visa',
      amountMinor: 1500,
      currency: 'usd',
      description: null,
    });
    const rival = new Client({ connectionString: engine.databaseUrl });
    await rival.connect();
    await rival.query('BEGIN');
    await rival.query(
      `INSERT INTO billing_charges (namespace, period, customer_id, state, generation, idempotency_key)
       VALUES ($1, $2, $3, 'claimed', 1, $4)`,
      [slot.namespace, slot.period, slot.customerId, frozen.confirm.key],
    );
    const loser = insertClaim(engine.db, slot, frozen);
    await untilWaiting(engine.db);
    await rival.query('COMMIT');
    await rival.end();
    expect(await loser).toBe(false);
    expect(await claimSlot(engine.deps, slot)).toEqual({ kind: 'resumed', generation: 1 });
  });

  it('N2: answers a second claim at once while the first one is being charged slowly', async () => {
    const slot = slotRef('alice', await planned());
    await claimSlot(engine.deps, slot);
    engine.simulator.setFaults({
      rules: [
        { id: 'slow', endpoint: 'payment_intents.confirm', kind: 'slow', delayMs: 1_500, limit: 1 },
      ],
    });
    let charged = false;
    const charging = charge(engine.deps, { ...slot, generation: 1 }, 1);
    void charging.finally(() => (charged = true));
    await untilConfirmSent(engine.db, slot.period);
    expect(await claimSlot(engine.deps, slot)).toEqual({ kind: 'resumed', generation: 1 });
    expect(charged).toBe(false);
    await charging;
    engine.simulator.setFaults(undefined);
  });

  it('takes the slot without keys when nothing is due or no payment method is known', async () => {
    const run = await planned();
    expect(await claimSlot(engine.deps, slotRef('free', run))).toEqual({
      kind: 'skipped',
      reason: 'nothing_due',
    });
    expect(await claimSlot(engine.deps, slotRef('cardless', run))).toEqual({
      kind: 'skipped',
      reason: 'no_payment_method',
    });
    expect((await readSlot(engine.db, slotRef('free', run))).idempotency_key).toBeNull();
    expect(await claimSlot(engine.deps, slotRef('free', run))).toEqual({
      kind: 'skipped',
      reason: 'nothing_due',
    });
  });

  it('I2: keeps two namespaces of one period apart, and one namespace single', async () => {
    const base = await planned();
    const overage = runRef(base.period, 'overage');
    await planRun(engine.db, overage, 'test');
    expect((await claimSlot(engine.deps, slotRef('alice', base))).kind).toBe('claimed');
    expect((await claimSlot(engine.deps, slotRef('alice', overage))).kind).toBe('claimed');
    expect((await claimSlot(engine.deps, slotRef('alice', overage))).kind).toBe('resumed');
  });

  it('refuses a customer who is not in the plan', async () => {
    const slot = slotRef('stranger', await planned());
    await expect(claimSlot(engine.deps, slot)).rejects.toMatchObject({
      type: 'RunNotPlanned',
      nonRetryable: true,
    });
  });
});

describe('planRun', () => {
  it('makes one plan when two runs plan the same period at once', async () => {
    for (let round = 0; round < 5; round += 1) {
      const run = nextRun();
      const plans = await Promise.all(
        Array.from({ length: 6 }, (_, i) => planRun(engine.db, run, `rival ${i}`)),
      );
      expect(new Set(plans.map((plan) => plan.customerCount))).toEqual(new Set([5]));
      const { n } = await engine.db
        .selectFrom('billing_items')
        .select((select) => select.fn.countAll<number>().as('n'))
        .where('period', '=', run.period)
        .executeTakeFirstOrThrow();
      expect(n).toBe(5);
    }
  });

  it('expects per currency what can be charged, and counts every active customer', async () => {
    const run = await planned();
    const summary = await readRunSummary(engine.db, run);
    expect(summary?.customers).toBe(5);
    expect(summary?.unclaimed).toBe(5);
    expect(summary?.expectedMinorByCurrency).toEqual({ usd: 3000, eur: 700 });
  });

  it('A10: leaves the items of a planned period alone when the customers change afterwards', async () => {
    const run = await planned();
    const items = () =>
      engine.db
        .selectFrom('billing_items')
        .selectAll()
        .where('period', '=', run.period)
        .orderBy('position')
        .execute();
    const before = await items();
    await engine.db
      .updateTable('customers')
      .set({ amount_minor: 999_900 })
      .where('customer_id', '=', 'bob')
      .execute();
    await insertCustomers(engine.db, [{ id: 'late' }]);
    await planRun(engine.db, run, 'again');
    expect(await items()).toEqual(before);
    await engine.db
      .updateTable('customers')
      .set({ amount_minor: 700 })
      .where('customer_id', '=', 'bob')
      .execute();
    await engine.db.deleteFrom('customers').where('customer_id', '=', 'late').execute();
  });

  it('gives everybody of a long list a place of their own, in one plan', async () => {
    const many = await startEngine();
    await sql`INSERT INTO customers (customer_id, stripe_customer_id, payment_method_id, amount_minor, currency)
      SELECT 'n' || n, 'cus_' || n, 'pm_card_visa', 1500, 'usd' FROM generate_series(1, 45000) n`.execute(
      many.db,
    );
    const run = runRef('2026-09');
    expect((await planRun(many.db, run, 'test')).customerCount).toBe(45_000);
    const { rows } = await sql<Record<string, number>>`
      SELECT count(*)::int AS items, count(DISTINCT position)::int AS places, min(position) AS first,
        max(position) AS last, bool_and(ordered)::int AS ordered
      FROM (SELECT position, customer_id >= coalesce(lag(customer_id) OVER (ORDER BY position), '') AS ordered
        FROM billing_items) i`.execute(many.db);
    expect(rows[0]).toEqual({ items: 45_000, places: 45_000, first: 1, last: 45_000, ordered: 1 });
    await many.close();
  });

  it('keeps a completed run completed when it is moved again', async () => {
    const run = await planned();
    await moveRun(engine.db, run, { state: 'charging', actor: 'test' });
    await moveRun(engine.db, run, { state: 'completed', actor: 'test' });
    await moveRun(engine.db, run, { state: 'charging', actor: 'test' });
    await moveRun(engine.db, run, { state: 'stopped', actor: 'test' });
    expect((await readRun(engine.db, run))?.state).toBe('completed');
  });

  it('plans nothing when no customer is active', async () => {
    const run = nextRun();
    await engine.db.updateTable('customers').set({ active: false }).execute();
    await expect(planRun(engine.db, run, 'test')).rejects.toBeInstanceOf(NoCustomers);
    await engine.db.updateTable('customers').set({ active: true }).execute();
    expect(await readRun(engine.db, run)).toBeNull();
  });
});

describe('decideRerun', () => {
  const order = (slot: ReturnType<typeof slotRef>, requestId: string) => ({
    ...slot,
    requestId,
    operator: 'olga',
    reason: 'new card',
  });

  async function declinedSlot() {
    const slot = slotRef('poor', await planned());
    await claimSlot(engine.deps, slot);
    await record(engine.deps, slot, await charge(engine.deps, { ...slot, generation: 1 }, 1));
    return slot;
  }

  it('opens one generation when the same order arrives 20 times at once', async () => {
    const slot = await declinedSlot();
    const answers = await Promise.all(
      Array.from({ length: 20 }, () =>
        decideRerun(engine.deps, order(slot, `same-${slot.period}`)),
      ),
    );
    expect(new Set(answers)).toEqual(new Set(['accepted']));
    expect(await readSlot(engine.db, slot)).toMatchObject({ state: 'claimed', generation: 2 });
  });

  it('opens one generation when two different orders arrive at once', async () => {
    const slot = await declinedSlot();
    await Promise.all(
      ['a', 'b'].map((id) => decideRerun(engine.deps, order(slot, `${id}-${slot.period}`))),
    );
    expect(await readSlot(engine.db, slot)).toMatchObject({ state: 'claimed', generation: 2 });
  });

  it('A8: refuses a request id that was used for another customer, whose answer stays as it was', async () => {
    const slot = await declinedSlot();
    await decideRerun(engine.deps, order(slot, `mine-${slot.period}`));
    const other = slotRef('alice', slot);
    const work = createActivities().decideRerun(order(other, `mine-${slot.period}`));
    await expect(work).rejects.toMatchObject({ type: 'InvalidMessage', nonRetryable: true });
    expect(await decideRerun(engine.deps, order(slot, `mine-${slot.period}`))).toBe('accepted');
  });

  it('answers what it may not run again, and changes nothing', async () => {
    const run = await planned();
    const charged = slotRef('alice', run);
    await claimSlot(engine.deps, charged);
    await record(engine.deps, charged, await charge(engine.deps, { ...charged, generation: 1 }, 1));
    expect(await decideRerun(engine.deps, order(charged, `c-${run.period}`))).toBe(
      'alreadyCharged',
    );
    expect(await decideRerun(engine.deps, order(slotRef('nobody', run), `n-${run.period}`))).toBe(
      'unknownCustomer',
    );
    const free = slotRef('free', run);
    await claimSlot(engine.deps, free);
    expect(await decideRerun(engine.deps, order(free, `f-${run.period}`))).toBe('nothingDue');
    expect(await readSlot(engine.db, charged)).toMatchObject({ state: 'charged', generation: 1 });
  });

  it('E3: refuses to open a generation while the outcome of the first is unknown', async () => {
    const slot = slotRef('alice', await planned());
    await claimSlot(engine.deps, slot);
    await record(engine.deps, slot, {
      generation: 1,
      result: { outcome: 'indeterminate', reason: 'lost', advice: 'reconcile' },
      answer: null,
    });
    expect(await decideRerun(engine.deps, order(slot, `e3-${slot.period}`))).toBe('inDoubt');
    expect(await readSlot(engine.db, slot)).toMatchObject({
      state: 'indeterminate',
      generation: 1,
    });
  });

  it('takes a slot up again that the cap had blocked, under its own key', async () => {
    const slot = slotRef('alice', await planned());
    await claimSlot(engine.deps, slot);
    const { idempotency_key: key } = await readSlot(engine.db, slot);
    await record(engine.deps, slot, {
      generation: 1,
      result: { outcome: 'blocked', reason: 'cap_exceeded', advice: 'raise_cap' },
      answer: null,
    });
    expect(await decideRerun(engine.deps, order(slot, `b-${slot.period}`))).toBe('accepted');
    expect(await claimSlot(engine.deps, slot)).toEqual({ kind: 'resumed', generation: 1 });
    await record(engine.deps, slot, await charge(engine.deps, { ...slot, generation: 1 }, 1));
    expect(await readSlot(engine.db, slot)).toMatchObject({
      state: 'charged',
      idempotency_key: key,
    });
  });

  it('can run again a customer whose create was declined before there was a PaymentIntent', async () => {
    const slot = slotRef('alice', await planned());
    await claimSlot(engine.deps, slot);
    await sql`UPDATE charge_generations SET first_sent_at = now()
      WHERE period = ${slot.period} AND operation = 'create'`.execute(engine.db);
    await sql`UPDATE billing_charges SET state = 'sent' WHERE period = ${slot.period}`.execute(
      engine.db,
    );
    await record(engine.deps, slot, {
      generation: 1,
      result: {
        outcome: 'declined',
        paymentIntentId: null,
        declinedChargeId: null,
        reason: 'card_declined',
        advice: 'never',
      },
      answer: null,
    });
    expect(await decideRerun(engine.deps, order(slot, `p-${slot.period}`))).toBe('accepted');
    await record(engine.deps, slot, await charge(engine.deps, { ...slot, generation: 2 }, 1));
    expect(await readSlot(engine.db, slot)).toMatchObject({ state: 'charged', generation: 2 });
  });
});

function createActivities() {
  return createBillingActivities(engine.deps);
}
