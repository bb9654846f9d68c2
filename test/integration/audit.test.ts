import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import {
  auditExitCode,
  formatAuditReport,
  providerWitness,
  quickCount,
  stripeListWitness,
} from '../../src/audit/index.ts';
import { TEST_KEY } from '../support/engine.ts';
import { BilledPeriod, found, RUN } from './audit-fixture.ts';

let period: BilledPeriod;

beforeEach(async () => {
  period = await BilledPeriod.bill();
});

afterEach(() => period.close());

describe('the audit of a completed period', () => {
  test('passes with every number when the witnesses agree', async () => {
    const report = await period.audit();
    expect(report).toMatchObject({
      verdict: 'pass',
      unknowns: [],
      customers: 4,
      charged: 2,
      declined: 1,
      skipped: 1,
      indeterminate: 0,
      unfinished: 0,
      doubleCharged: 0,
      lost: 0,
      amountMinorByCurrency: { eur: 900, usd: 1500 },
      findingsTotal: 0,
      witnesses: { provider: { status: 'read', records: 3 }, temporal: { status: 'not_asked' } },
    });
    expect(auditExitCode(report)).toBe(0);
    expect(formatAuditReport(report)).toMatch(/^PASS: for 2026-09, database, provider agree/);
  });

  test.each(['ledger', 'list'])(
    'fails and names the customer charged a second time behind our back, read from the %s',
    async (source) => {
      await period.intrude({ customer: 'ada', key: 'intruder-1' });
      const provider =
        source === 'ledger'
          ? period.ledger
          : stripeListWitness({ apiKey: TEST_KEY, apiBase: period.engine.simulator.url });
      const report = await period.audit({ provider });
      expect(report).toMatchObject({ verdict: 'fail', doubleCharged: 1, lost: 0 });
      expect(found(report)).toEqual([
        'charged_twice ada',
        'several_payment_intents ada',
        'sum_differs -',
      ]);
      expect(auditExitCode(report)).toBe(1);
      const text = formatAuditReport(report);
      expect(text).toMatch(/^FAIL: for 2026-09, 1 charged twice, 0 lost/);
      expect(text).toContain('DISAGREEMENT  ada: charged twice [charged_twice]');
    },
  );

  test('fails when a slot was set to charged and the provider has no charge', async () => {
    await period.tamper(`UPDATE billing_charges SET state = 'charged', reason = NULL, advice = NULL,
      charge_id = 'ch_invented' WHERE customer_id = 'cleo'`);
    const report = await period.audit();
    expect(report.verdict).toBe('fail');
    expect(found(report)).toEqual([
      'audit_log_differs cleo',
      'charged_in_database_only cleo',
      'generation_differs cleo',
      'sum_differs -',
      'sum_differs -',
    ]);
  });

  test('fails when the provider charged and the slot says declined', async () => {
    await period.tamper(`UPDATE billing_charges SET state = 'declined', reason = 'card_declined',
      charge_id = NULL WHERE customer_id = 'ada'`);
    const report = await period.audit();
    expect(found(report)).toContain('charged_at_provider_only ada');
    expect(report.verdict).toBe('fail');
  });

  test('counts a customer of the plan without a slot as lost', async () => {
    await period.tamper("DELETE FROM billing_charges WHERE customer_id = 'dan'");
    const report = await period.audit();
    expect(report).toMatchObject({ verdict: 'fail', lost: 1, customers: 4, skipped: 0 });
    expect(found(report)).toEqual(['lost dan']);
  });

  test('fails when the amount charged is not the amount of the frozen item', async () => {
    await period.tamper("UPDATE billing_items SET amount_minor = 1400 WHERE customer_id = 'ada'");
    const report = await period.audit();
    expect(found(report)).toEqual([
      'audit_log_differs ada',
      'differs_from_item ada',
      'frozen_request_differs ada',
      'sum_differs -',
      'sum_differs -',
    ]);
    expect(report.findings.find(({ kind }) => kind === 'differs_from_item')?.message).toContain(
      'charged 1500 instead of 1400',
    );
  });

  test('fails when another Stripe customer was charged than the item names', async () => {
    await period.tamper(
      "UPDATE billing_items SET stripe_customer_id = 'cus_other' WHERE customer_id = 'ada'",
    );
    const report = await period.audit();
    expect(found(report)).toEqual(['differs_from_item ada', 'frozen_request_differs ada']);
  });

  test('fails when a customer outside the plan was charged for the period', async () => {
    await period.intrude({ customer: 'ghost', key: 'intruder-2' });
    const report = await period.audit();
    expect(found(report)).toEqual(['outside_plan ghost', 'sum_differs -']);
    expect(report.verdict).toBe('fail');
  });

  test('notes, without failing, a PaymentIntent outside the plan on which no money moved', async () => {
    await period.intrude({ customer: 'ghost', key: 'intruder-3', confirm: false });
    const report = await period.audit();
    expect(found(report)).toEqual(['outside_plan ghost']);
    expect(report.verdict).toBe('pass');
  });

  test('fails when the slot names another PaymentIntent or charge than succeeded', async () => {
    await period.tamper(
      "UPDATE billing_charges SET payment_intent_id = 'pi_other' WHERE customer_id = 'ada'",
      "UPDATE billing_charges SET charge_id = 'ch_other' WHERE customer_id = 'bob'",
      "UPDATE charge_generations SET charge_id = 'ch_other' WHERE customer_id = 'bob' AND outcome = 'charged'",
    );
    expect(found(await period.audit())).toEqual(['provider_differs ada', 'provider_differs bob']);
  });

  test('fails when a second PaymentIntent of a slot was confirmed, even if it was declined', async () => {
    await period.intrude({
      customer: 'ada',
      key: 'intruder-4',
      paymentMethod: 'pm_card_visa_chargeDeclined',
    });
    const report = await period.audit();
    expect(found(report)).toEqual(['several_payment_intents ada']);
    expect(report.verdict).toBe('fail');
  });

  test('fails when a PaymentIntent was made under a key that was never stored', async () => {
    await period.intrude({
      customer: 'ada',
      key: 'intruder-5',
      confirm: false,
      metadataKey: 'bill.v1.other',
    });
    expect(found(await period.audit())).toEqual(['unknown_key ada']);
  });

  test('fails when an audit entry of a charge is missing or is for nobody of the plan', async () => {
    await period.tamper(
      "DELETE FROM audit_log WHERE customer_id = 'ada' AND action = 'slot.charged'",
      `INSERT INTO audit_log (actor, action, namespace, period, customer_id, amount_minor, currency)
       VALUES ('x', 'slot.charged', 'base', '2026-09', 'ghost', 5, 'usd')`,
    );
    expect(found(await period.audit())).toEqual([
      'audit_log_differs ada',
      'outside_plan ghost',
      'sum_differs -',
    ]);
  });

  test('fails when customers have gone from the plan', async () => {
    await period.tamper("UPDATE billing_runs SET customer_count = 5 WHERE period = '2026-09'");
    expect(found(await period.audit())).toEqual(['plan_differs -']);
  });
});

describe('quickCount', () => {
  test('counts double charges and lost customers without histories', async () => {
    const options = { databaseUrl: period.engine.databaseUrl, run: RUN, provider: period.ledger };
    expect(await quickCount(options)).toEqual({ doubleCharged: 0, lost: 0, problem: null });
    await period.intrude({ customer: 'bob', key: 'intruder-7' });
    await period.tamper("DELETE FROM billing_charges WHERE customer_id = 'dan'");
    expect(await quickCount(options)).toEqual({ doubleCharged: 1, lost: 1, problem: null });
  });

  test('gives no number of double charges when the provider is out of reach', async () => {
    const provider = stripeListWitness({
      apiKey: TEST_KEY,
      apiBase: 'http://127.0.0.1:9',
      pace: 0,
    });
    const count = await quickCount({ databaseUrl: period.engine.databaseUrl, run: RUN, provider });
    expect(count).toMatchObject({ doubleCharged: null, lost: 0 });
    expect(count.problem).toContain('127.0.0.1:9');
  });
});

test('chooses the ledger where a simulator answers, and the list elsewhere', async () => {
  const { url } = period.engine.simulator;
  expect((await providerWitness({ apiKey: TEST_KEY, apiBase: url })).source).toBe(
    'simulator ledger',
  );
  const list = await providerWitness({ apiKey: TEST_KEY, apiBase: 'http://127.0.0.1:9' });
  expect(list.source).toBe('PaymentIntent list of 127.0.0.1:9');
  expect((await providerWitness({ apiKey: TEST_KEY })).source).toContain('api.stripe.com');
});
