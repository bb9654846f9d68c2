import { randomBytes } from 'node:crypto';
import { sql, type Kysely } from 'kysely';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { DB } from '../../src/db/schema.ts';
import { SLOT_ARROWS, type SlotState } from '../../src/domain/charge.ts';
import { refusedBy, runRef, startEngine, type Engine } from '../support/engine.ts';

const STATES: readonly SlotState[] = [
  'claimed',
  'sent',
  'charged',
  'declined',
  'indeterminate',
  'blocked',
  'misconfigured',
  'skipped',
  'in_review',
];

const CUSTOMERS = Array.from({ length: 120 }, (_, i) => `k${i}`);
let engine: Engine;
let db: Kysely<DB>;
let next = 0;

beforeAll(async () => {
  engine = await startEngine();
  db = engine.db;
  await engine.plan(CUSTOMERS.map((id) => ({ id })));
});
afterAll(() => engine.close());

/** Inserts a slot in the given state, with what its constraints ask for. Returns its customer. */
async function slotIn(state: SlotState, more: { generation?: number } = {}): Promise<string> {
  const customer = CUSTOMERS[next++] ?? 'too few customers';
  await db
    .insertInto('billing_charges')
    .values({
      ...runRef(),
      customer_id: customer,
      state,
      generation: more.generation ?? 1,
      idempotency_key: state === 'skipped' ? null : `key-${customer}`,
      ...(state === 'charged'
        ? { charge_id: `ch_${customer}`, payment_intent_id: `pi_${customer}` }
        : {}),
      ...(['claimed', 'sent', 'charged'].includes(state) ? {} : { reason: 'test' }),
    })
    .execute();
  return customer;
}

/** Tries to move a slot, giving the new state everything its own constraints ask for. */
function move(
  customer: string,
  to: SlotState,
  set: Partial<{ generation: number; idempotency_key: string }> = {},
) {
  const settled = !['claimed', 'sent', 'charged'].includes(to);
  return refusedBy(
    db
      .updateTable('billing_charges')
      .set({
        state: to,
        reason: settled ? 'test' : null,
        charge_id: to === 'charged' ? `ch_${customer}` : null,
        ...(to === 'charged' ? { payment_intent_id: `pi_${customer}` } : {}),
        ...(to === 'claimed' ? { idempotency_key: `key-${customer}` } : {}),
        ...set,
      })
      .where('customer_id', '=', customer)
      .execute(),
  );
}

const addGeneration = (
  customer: string,
  more: Partial<{
    operation: 'create' | 'confirm';
    generation: number;
    key: string;
    sent: boolean;
    outcome: 'charged' | 'declined' | 'created' | 'absent';
    charge: string;
  }> = {},
) =>
  db
    .insertInto('charge_generations')
    .values({
      ...runRef(),
      customer_id: customer,
      idempotency_key:
        more.key ?? `${customer}-${more.operation ?? 'confirm'}-${more.generation ?? 1}`,
      operation: more.operation ?? 'confirm',
      generation: more.generation ?? 1,
      request_body: 'a=b',
      api_version: 'v',
      first_sent_at: more.sent === true ? sql`now()` : null,
      outcome: more.outcome ?? null,
      finished_at: more.outcome === undefined ? null : sql`now()`,
      charge_id: more.charge ?? null,
    })
    .execute();

describe('the arrows of a slot', () => {
  const pairs = STATES.flatMap((from) =>
    STATES.filter((to) => to !== from).map((to) => [from, to] as const),
  );

  it('are the same in the database as in the code, for every pair of states', async () => {
    const differences: string[] = [];
    for (const [from, to] of pairs) {
      const customer = await slotIn(from);
      // From a final refusal back to claimed only with the next generation and a key of its own.
      const raised = to === 'claimed' && (from === 'declined' || from === 'misconfigured');
      const refused = await move(
        customer,
        to,
        raised ? { generation: 2, idempotency_key: `key2-${customer}` } : {},
      );
      const allowed = SLOT_ARROWS[from].includes(to);
      const expected = allowed
        ? null
        : from === 'charged'
          ? 'charged_is_absorbing'
          : 'slot_moves_along_the_arrows';
      if (refused !== expected) differences.push(`${from} → ${to}: ${refused}, not ${expected}`);
    }
    expect(differences).toEqual([]);
  });

  it.each(['declined', 'misconfigured'] as const)(
    'do not lead from %s back to claimed in the same generation',
    async (from) => {
      expect(await move(await slotIn(from), 'claimed')).toBe('slot_moves_along_the_arrows');
    },
  );
});

describe('the generation of a slot', () => {
  it.each(['declined', 'misconfigured', 'indeterminate', 'in_review'] as const)(
    'rises by one from %s',
    async (from) => {
      const customer = await slotIn(from);
      expect(
        await move(customer, 'claimed', { generation: 2, idempotency_key: `n-${customer}` }),
      ).toBeNull();
    },
  );

  it.each(['claimed', 'sent', 'blocked', 'skipped'] as const)(
    'does not rise from %s',
    async (from) => {
      const customer = await slotIn(from);
      const to = from === 'claimed' ? 'claimed' : from === 'sent' ? 'indeterminate' : 'claimed';
      const refused = await move(customer, to, { generation: 2, idempotency_key: `n-${customer}` });
      expect(refused).toBe('generation_rises_after_a_final_answer');
    },
  );

  it('rises by one at a time, never falls, and takes a new key', async () => {
    const two = await slotIn('declined');
    expect(await move(two, 'claimed', { generation: 3, idempotency_key: `n-${two}` })).toBe(
      'generation_rises_after_a_final_answer',
    );
    const down = await slotIn('declined', { generation: 2 });
    expect(await move(down, 'claimed', { generation: 1, idempotency_key: `n-${down}` })).toBe(
      'generation_rises_after_a_final_answer',
    );
    const same = await slotIn('declined');
    expect(await move(same, 'claimed', { generation: 2 })).toBe(
      'generation_rises_after_a_final_answer',
    );
  });

  it('does not rise from indeterminate while the key that was sent has no answer', async () => {
    const customer = await slotIn('indeterminate');
    await addGeneration(customer, { sent: true });
    const refused = await move(customer, 'claimed', {
      generation: 2,
      idempotency_key: `n-${customer}`,
    });
    expect(refused).toBe('generation_rises_after_a_final_answer');
  });

  it('has one key open per operation', async () => {
    const customer = await slotIn('claimed');
    await addGeneration(customer);
    expect(await refusedBy(addGeneration(customer, { generation: 2 }))).toBe('one_generation_open');
    expect(await refusedBy(addGeneration(customer, { key: 'other' }))).toBe(
      'one_key_per_generation',
    );
    expect(await refusedBy(addGeneration(customer, { operation: 'create' }))).toBeNull();
  });

  it('pays a slot once, whichever of them did it', async () => {
    const customer = await slotIn('claimed');
    await addGeneration(customer, { sent: true, outcome: 'charged', charge: 'ch_1' });
    const second = addGeneration(customer, {
      generation: 2,
      sent: true,
      outcome: 'charged',
      charge: 'ch_2',
    });
    expect(await refusedBy(second)).toBe('one_generation_charged');
  });

  it('A10: keeps the bytes, the fact that they were sent, and the answer', async () => {
    const customer = await slotIn('sent');
    await addGeneration(customer, { sent: true, outcome: 'declined' });
    const set = (values: Record<string, unknown>) =>
      refusedBy(
        db
          .updateTable('charge_generations')
          .set(values)
          .where('customer_id', '=', customer)
          .execute(),
      );
    expect(await set({ request_body: 'a=c' })).toBe('request_is_frozen');
    expect(await set({ api_version: 'w' })).toBe('request_is_frozen');
    expect(await set({ generation: 2 })).toBe('request_is_frozen');
    expect(await set({ first_sent_at: null })).toBe('sent_stays_sent');
    expect(await set({ outcome: 'charged' })).toBe('answer_is_final');
    expect(await set({ stripe_request_id: 'req_1' })).toBeNull();
  });

  it('keeps a key unique over all slots', async () => {
    const [one, two] = [await slotIn('claimed'), await slotIn('claimed')];
    await addGeneration(one, { key: 'shared' });
    expect(await refusedBy(addGeneration(two, { key: 'shared' }))).toBe('charge_generations_pkey');
    const stolen = db
      .updateTable('billing_charges')
      .set({ idempotency_key: `key-${one}` })
      .where('customer_id', '=', two)
      .execute();
    expect(await refusedBy(stolen)).toBe('slot_key_is_unique');
  });

  it('D6: refuses a key longer than Stripe takes, however well it compresses', async () => {
    const customer = await slotIn('claimed');
    expect(await refusedBy(addGeneration(customer, { key: 'k'.repeat(256) }))).toBe(
      'idempotency_key_length',
    );
    expect(await refusedBy(addGeneration(customer, { key: '' }))).toBe('idempotency_key_length');
    // Random bytes do not compress, and would burst the row of the index.
    for (const key of [randomBytes(3_200).toString('hex'), 'k'.repeat(6_400)]) {
      expect(await refusedBy(addGeneration(customer, { key }))).toBe('idempotency_key_length');
    }
    expect(await refusedBy(addGeneration(customer, { key: 'k'.repeat(255) }))).toBeNull();
  });
});

describe('a slot', () => {
  const insert = (values: Record<string, unknown>) => {
    const customer = CUSTOMERS[next++] ?? 'too few customers';
    const row = {
      ...runRef(),
      customer_id: customer,
      state: 'claimed' as const,
      idempotency_key: `key-${customer}`,
      ...values,
    };
    return refusedBy(db.insertInto('billing_charges').values(row).execute());
  };

  it('has a charge if and only if it is charged', async () => {
    expect(await insert({ state: 'charged', payment_intent_id: 'pi_a' })).toBe(
      'charge_id_iff_charged',
    );
    expect(await insert({ charge_id: 'ch_a' })).toBe('charge_id_iff_charged');
  });

  it('has a PaymentIntent when it is charged, a reason when it is not, and a key unless nothing was due', async () => {
    expect(await insert({ state: 'charged', charge_id: 'ch_b' })).toBe(
      'charged_has_payment_intent',
    );
    expect(await insert({ state: 'declined' })).toBe('not_charged_has_reason');
    expect(await insert({ reason: 'why' })).toBe('unsettled_has_no_reason');
    expect(await insert({ idempotency_key: null })).toBe('key_unless_skipped');
    expect(await insert({ generation: 0 })).toBe('generation_is_positive');
  });

  it('exists once per customer and period, and only for a planned customer', async () => {
    const customer = await slotIn('claimed');
    expect(await insert({ customer_id: customer })).toBe('billing_charges_pkey');
    expect(await insert({ customer_id: 'stranger' })).toBe('slot_belongs_to_an_item');
  });

  it('D11: never has a part of its key missing, and no unique rule lets an empty column through unmeant', async () => {
    const missing = sql`INSERT INTO billing_charges (namespace, period, customer_id, state) VALUES (NULL, '2026-09', 'k0', 'claimed')`;
    await expect(missing.execute(db)).rejects.toMatchObject({ code: '23502' });
    // Postgres takes two empty values for different ones. These fill in later, once, or are logged whole.
    const { rows } = await sql<{ rule: string; columns: string }>`
      SELECT i.indexrelid::regclass::text AS rule, string_agg(a.attname, ' ' ORDER BY a.attnum) AS columns
      FROM pg_index i JOIN pg_class t ON t.oid = i.indrelid
        JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = ANY (i.indkey)
      WHERE i.indisunique AND t.relnamespace = 'public'::regnamespace AND NOT a.attnotnull
        AND NOT i.indnullsnotdistinct
      GROUP BY 1 ORDER BY 1`.execute(db);
    expect(Object.fromEntries(rows.map((row) => [row.rule, row.columns]))).toEqual({
      charge_pays_one_slot: 'charge_id',
      charged_is_logged_once: 'namespace period customer_id',
      // Only of keys that belong to a run, whose namespace is not empty.
      one_vault_key_per_run: 'namespace period',
      payment_intent_serves_one_slot: 'payment_intent_id',
      refund_serves_one_line: 'refund_id',
      reservation_is_of_one_object: 'object_id',
      slot_key_is_unique: 'idempotency_key',
    });
  });

  it('keeps its PaymentIntent, and shares neither it nor the charge with another slot', async () => {
    const one = await slotIn('charged');
    const two = await slotIn('sent');
    const set = (values: Record<string, unknown>) =>
      refusedBy(
        db.updateTable('billing_charges').set(values).where('customer_id', '=', two).execute(),
      );
    expect(await set({ payment_intent_id: `pi_${one}` })).toBe('payment_intent_serves_one_slot');
    expect(await set({ payment_intent_id: 'pi_mine' })).toBeNull();
    expect(await set({ payment_intent_id: 'pi_other' })).toBe('one_payment_intent_per_slot');
    expect(await set({ payment_intent_id: null })).toBe('one_payment_intent_per_slot');
    expect(await set({ state: 'charged', charge_id: `ch_${one}` })).toBe('charge_pays_one_slot');
  });

  it('never changes once it is charged, not even to the same state', async () => {
    const customer = await slotIn('charged');
    expect(await move(customer, 'charged')).toBe('charged_is_absorbing');
  });
});
