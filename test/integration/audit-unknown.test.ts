import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import {
  auditExitCode,
  auditPeriod,
  formatAuditReport,
  stripeListWitness,
  type ProviderWitness,
  type TemporalWitness,
} from '../../src/audit/index.ts';
import { runRef, TEST_KEY } from '../support/engine.ts';
import { BilledPeriod, found, RUN } from './audit-fixture.ts';

let period: BilledPeriod;

beforeEach(async () => {
  period = await BilledPeriod.bill();
});

afterEach(() => period.close());

describe('a verdict that cannot be given', () => {
  test('is unknown when the provider cannot be reached', async () => {
    const gone = stripeListWitness({ apiKey: TEST_KEY, apiBase: 'http://127.0.0.1:9', pace: 0 });
    const report = await period.audit({ provider: gone });
    expect(report).toMatchObject({ verdict: 'unknown', charged: 2, findingsTotal: 0 });
    expect(report.witnesses.provider.status).toBe('unreadable');
    expect(auditExitCode(report)).toBe(4);
    expect(formatAuditReport(report)).toMatch(
      /^UNKNOWN: .*the provider could not be read to its end/,
    );
  });

  test('is unknown when the database cannot be reached', async () => {
    const report = await auditPeriod({
      databaseUrl: 'postgres://nobody@127.0.0.1:9/none',
      run: RUN,
      provider: period.ledger,
      temporal: null,
    });
    expect(report).toMatchObject({ verdict: 'unknown', customers: 0 });
    expect(report.witnesses.database.status).toBe('unreadable');
  });

  test('is unknown when the period was never planned', async () => {
    const report = await auditPeriod({
      databaseUrl: period.engine.databaseUrl,
      run: runRef('2026-10'),
      provider: period.ledger,
      temporal: null,
    });
    expect(report.verdict).toBe('unknown');
    expect(report.unknowns.join()).toContain('2026-10 was never planned');
  });

  test('is unknown while the run is going, and a missing slot is not lost yet', async () => {
    await period.tamper(
      "UPDATE billing_runs SET state = 'charging', completed_at = NULL",
      "DELETE FROM billing_charges WHERE customer_id = 'dan'",
      "UPDATE billing_charges SET state = 'sent', charge_id = NULL WHERE customer_id = 'ada'",
    );
    const report = await period.audit();
    expect(report).toMatchObject({ verdict: 'unknown', lost: 0, unfinished: 2 });
    expect(report.unknowns).toEqual(['the run is not over (charging): audit it again when it is']);
    expect(report.findings.map(({ severity }) => severity)).not.toContain('disagreement');
  });

  test('fails even while the run is going when somebody is charged twice', async () => {
    await period.tamper("UPDATE billing_runs SET state = 'charging', completed_at = NULL");
    await period.intrude({ customer: 'ada', key: 'intruder-6' });
    const report = await period.audit();
    expect(report).toMatchObject({ verdict: 'fail', doubleCharged: 1 });
    expect(formatAuditReport(report)).toContain('Besides: the run is not over (charging)');
  });

  test('is unknown for a completed run with a slot that was never settled', async () => {
    await period.tamper(`UPDATE billing_charges SET state = 'sent', reason = NULL, advice = NULL, settled_at = NULL
      WHERE customer_id = 'cleo'`);
    const report = await period.audit();
    expect(found(report)).toEqual(['unfinished cleo']);
    expect(report.verdict).toBe('unknown');
  });

  test('is unknown for customers that a stopped run has not reached', async () => {
    await period.tamper(
      "UPDATE billing_runs SET state = 'stopped'",
      "DELETE FROM billing_charges WHERE customer_id = 'dan'",
    );
    const report = await period.audit();
    expect(report).toMatchObject({ verdict: 'unknown', lost: 0, unfinished: 1 });
    expect(found(report)).toEqual(['not_reached dan']);
  });

  test('is unknown for a slot that is written to while the provider is being read', async () => {
    await period.tamper(`UPDATE billing_charges SET state = 'declined', reason = 'card_declined',
      charge_id = NULL WHERE customer_id = 'ada'`);
    const moving: ProviderWitness = {
      source: 'moving',
      async *intents(query) {
        yield* period.ledger.intents(query);
        await period.tamper(
          "UPDATE billing_charges SET updated_at = now() WHERE customer_id = 'ada'",
        );
      },
    };
    const report = await period.audit({ provider: moving });
    const ada = report.findings.find(({ kind }) => kind === 'charged_at_provider_only');
    expect(ada).toMatchObject({ severity: 'unfinished', customerId: 'ada' });
    expect(ada?.message).toContain('still moving');
    expect(report.verdict).toBe('unknown');
  });

  test('passes with an unknown outcome, which is named and contradicts nobody', async () => {
    await period.tamper(`UPDATE billing_charges SET state = 'indeterminate', reason = 'timeout', settled_at = NULL
      WHERE customer_id = 'cleo'`);
    const report = await period.audit();
    expect(report).toMatchObject({ verdict: 'pass', indeterminate: 1 });
    expect(report.findings).toMatchObject([
      { kind: 'open_outcome', severity: 'open', customerId: 'cleo' },
    ]);
  });
});

describe('Temporal as a witness, behind its interface', () => {
  const silent = { source: 'fake', async *histories() {} } satisfies TemporalWitness;

  test('makes the verdict unknown when it has no history at all', async () => {
    const report = await period.audit({ temporal: silent });
    expect(report.verdict).toBe('unknown');
    expect(report.unknowns.join()).toContain('Temporal has no history of this period');
  });

  test('makes the verdict unknown when it breaks off in the middle', async () => {
    const broken: TemporalWitness = {
      source: 'fake',
      async *histories() {
        yield HISTORY_OF_CLEO;
        throw new Error('connection lost');
      },
    };
    const report = await period.audit({ temporal: broken });
    expect(report.verdict).toBe('unknown');
    expect(report.unknowns).toEqual(['Temporal could not be read to its end: connection lost']);
  });

  test('lets a customer without history be absent, and counts it', async () => {
    const one: TemporalWitness = {
      source: 'fake',
      async *histories() {
        yield HISTORY_OF_CLEO;
      },
    };
    const report = await period.audit({ temporal: one });
    expect(report.verdict).toBe('pass');
    expect(report.witnesses.temporal).toMatchObject({ status: 'read', records: 1, absent: 3 });
  });
});

const HISTORY_OF_CLEO = {
  customerId: 'cleo',
  temporalRuns: 1,
  charges: [],
  returned: 'declined',
  open: false,
  partial: false,
};
