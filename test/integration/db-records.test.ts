import { sql, type Kysely } from 'kysely';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { DB } from '../../src/db/schema.ts';
import { refusedBy, runRef, startEngine, type Engine } from '../support/engine.ts';

let engine: Engine;
let db: Kysely<DB>;

beforeAll(async () => {
  engine = await startEngine();
  db = engine.db;
  await engine.plan([{ id: 'k0' }]);
});
afterAll(() => engine.close());

describe('records', () => {
  const APPEND_ONLY = [
    'billing_items',
    'billing_run_totals',
    'charge_attempts',
    'charge_attempt_answers',
    'rerun_requests',
    'audit_log',
  ];

  it.each([
    ...APPEND_ONLY.flatMap((table) => [
      [
        table,
        `UPDATE ${table} SET ${table === 'audit_log' ? 'actor' : 'period'} = 'x'`
          .replace('charge_attempts SET period', 'charge_attempts SET worker')
          .replace('charge_attempt_answers SET period', 'charge_attempt_answers SET error'),
      ],
      [table, `DELETE FROM ${table}`],
      [table, `TRUNCATE ${table} CASCADE`],
    ]),
    ['billing_charges', 'DELETE FROM billing_charges'],
    ['billing_charges', 'TRUNCATE billing_charges CASCADE'],
    ['charge_generations', 'DELETE FROM charge_generations'],
    ['charge_generations', 'TRUNCATE charge_generations CASCADE'],
  ])('of %s cannot be changed by: %s', async (_table, statement) => {
    await expect(sql.raw(statement).execute(db)).rejects.toMatchObject({ code: '23001' });
  });

  it('say that a slot was charged once', async () => {
    const log = (customer: string | null) =>
      db
        .insertInto('audit_log')
        .values({
          ...runRef(),
          actor: 'a',
          action: 'slot.charged',
          customer_id: customer,
          amount_minor: 1500,
          currency: 'usd',
          details: '{}',
        })
        .execute();
    await log('k0');
    expect(await refusedBy(log('k0'))).toBe('charged_is_logged_once');
    expect(await refusedBy(log(null))).toBe('logged_charge_names_its_slot');
  });

  it('say who gave an order and why', async () => {
    const order = (operator: string, reason: string) =>
      refusedBy(
        db
          .insertInto('rerun_requests')
          .values({
            ...runRef(),
            request_id: `${operator}/${reason}`,
            customer_id: 'k0',
            operator,
            reason,
            answer: 'accepted',
          })
          .execute(),
      );
    expect(await order('', 'why')).toBe('rerun_says_who_and_why');
    expect(await order('olga', '')).toBe('rerun_says_who_and_why');
  });

  it('hold no amount below zero or above what Stripe takes', async () => {
    const customer = (amount: number) =>
      refusedBy(
        db
          .insertInto('customers')
          .values({
            customer_id: `m${amount}`,
            stripe_customer_id: 'cus_m',
            amount_minor: amount,
            currency: 'usd',
          })
          .execute(),
      );
    expect(await customer(-1)).toBe('customer_amount_not_negative');
    expect(await customer(100_000_000)).toBe('customer_amount_not_negative');
    expect(await customer(99_999_999)).toBeNull();
  });
});
