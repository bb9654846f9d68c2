import type { TestWorkflowEnvironment } from '@temporalio/testing';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import {
  auditPeriod,
  simulatorLedgerWitness,
  stripeListWitness,
  temporalHistoryWitness,
  type AuditReport,
} from '../../src/audit/index.ts';
import type { CustomerHistory } from '../../src/audit/witnesses.ts';
import { RunClient } from '../../src/client.ts';
import { openDatabase } from '../../src/db/database.ts';
import { customerWorkflowId } from '../../src/domain/ids.ts';
import { Secret } from '../../src/secret.ts';
import { startSimulator, type Simulator } from '../../src/simulator/index.ts';
import { startWorker } from '../../src/worker.ts';
import { runSearchAttributes } from '../../src/workflows/search-attributes.ts';
import { insertCustomers, migratedDatabase, runRef, slotRef, TEST_KEY } from '../support/engine.ts';
import { testPostgres } from '../support/postgres.ts';
import { startDevServerEnvironment } from '../support/temporal-servers.ts';
import { found, tamper } from './audit-fixture.ts';

const RUN = runRef('2026-11');
const CUSTOMERS = [
  { id: 'ada', amountMinor: 1500 },
  // Its confirm is answered with a 500 after the money moved: settled by reconcile, in a second Temporal run.
  { id: 'bob', amountMinor: 900, currency: 'eur' },
  { id: 'cleo', paymentMethod: 'pm_card_visa_chargeDeclined' },
  { id: 'dan', amountMinor: 700, paymentMethod: null },
];

let environment: TestWorkflowEnvironment;
let simulator: Simulator;
let client: RunClient;
/** the database as the run left it; each test tampers with a clone */
let afterRun: string;
let databaseUrl: string;

beforeAll(async () => {
  environment = await startDevServerEnvironment();
  simulator = await startSimulator({
    endpointRate: 0,
    accountRate: 0,
    faults: {
      rules: [
        {
          id: 'lost',
          endpoint: 'payment_intents.confirm',
          kind: 'actThen500',
          where: { chargeonce_customer: 'bob' },
        },
      ],
    },
  });
  const connection = { address: environment.address };
  client = await RunClient.connect({ connection, namespace: 'default' });
  const url = await migratedDatabase();
  afterRun = new URL(url).pathname.slice(1);
  await billAll(url);
}, 120_000);

afterAll(async () => {
  await client.close();
  await simulator.close();
  await environment.teardown();
});

beforeEach(async () => {
  const postgres = await testPostgres();
  databaseUrl = (await postgres.createDatabase({ template: afterRun })).url;
});

/** A whole run by a real worker, which is gone afterwards: nobody may be connected to a template. */
async function billAll(url: string): Promise<void> {
  const database = openDatabase({ url, applicationName: 'audit test', onError: () => {} });
  await insertCustomers(database.db, CUSTOMERS);
  await database.close();
  const worker = await startWorker({
    databaseUrl: new Secret(url),
    temporal: { connection: { address: environment.address }, namespace: 'default' },
    stripe: { apiKey: new Secret(TEST_KEY), apiBase: simulator.url, timeoutMs: 30_000 },
    mode: 'test',
    chargesPerSecond: 0,
    reconcilePausesMs: [200, 500, 1_000],
    absenceQuietMs: 1_000,
    maxCachedWorkflows: 50,
    onDatabaseError: () => {},
  });
  await client.startRun(RUN, 'test');
  await client.run(RUN).result();
  await worker.shutdown();
}

function audit(provider = simulatorLedgerWitness(simulator.url)): Promise<AuditReport> {
  return auditPeriod({
    databaseUrl,
    run: RUN,
    provider,
    temporal: temporalHistoryWitness(client.temporal),
  });
}

async function history(customer: string): Promise<CustomerHistory | undefined> {
  const witness = temporalHistoryWitness(client.temporal);
  for await (const one of witness.histories(RUN, [customer])) {
    if (one.customerId === customer) return one;
  }
  return undefined;
}

test('passes on three witnesses after a run in which a charge was settled by reconcile', async () => {
  for (const provider of [
    simulatorLedgerWitness(simulator.url),
    stripeListWitness({ apiKey: TEST_KEY, apiBase: simulator.url }),
  ]) {
    expect(await audit(provider)).toMatchObject({
      verdict: 'pass',
      charged: 2,
      declined: 1,
      skipped: 1,
      amountMinorByCurrency: { eur: 900, usd: 1500 },
      findingsTotal: 0,
      witnesses: { temporal: { status: 'read', records: 4, absent: 0 } },
    });
  }
});

test('reads what charge and reconcile answered over all Temporal runs of a customer', async () => {
  expect(await history('ada')).toMatchObject({
    temporalRuns: 1,
    returned: 'charged',
    open: false,
    partial: false,
    charges: [{ amountMinor: 1500, currency: 'usd' }],
  });
  expect(await history('bob')).toMatchObject({
    temporalRuns: 2,
    returned: 'charged',
    charges: [{ amountMinor: 900, currency: 'eur' }],
  });
  expect(await history('cleo')).toMatchObject({ returned: 'declined', charges: [] });
  expect(await history('nobody')).toBeUndefined();
});

test('fails when the history names another PaymentIntent than the slot', async () => {
  await tamper(databaseUrl, [
    "UPDATE billing_charges SET payment_intent_id = 'pi_x' WHERE customer_id = 'ada'",
  ]);
  expect(found(await audit())).toEqual(['history_differs ada', 'provider_differs ada']);
});

test('fails when the workflow returned another outcome than the slot has', async () => {
  await tamper(databaseUrl, [
    "UPDATE billing_charges SET state = 'misconfigured' WHERE customer_id = 'cleo'",
  ]);
  const report = await audit();
  expect(found(report)).toEqual(['history_differs cleo']);
  expect(report.findings[0]?.message).toBe(
    'the workflow returned declined, the slot is misconfigured',
  );
});

// From here on the provider has one charge more; the tests below look at their own customer only.
test('fails on a charge that database and provider agree on and no activity ever answered', async () => {
  const key = 'bill.v1.by-hand';
  const intent = await chargeByHand(key);
  await tamper(databaseUrl, [
    `UPDATE billing_charges SET state = 'charged', reason = NULL, idempotency_key = '${key}.confirm',
       payment_intent_id = '${intent.id}', charge_id = '${intent.latest_charge}' WHERE customer_id = 'dan'`,
    `INSERT INTO charge_generations (idempotency_key, namespace, period, customer_id, operation, generation,
       request_body, api_version, outcome, charge_id, finished_at) VALUES
     ('${key}', 'base', '2026-11', 'dan', 'create', 1, '${intent.body}', 'x', 'created', NULL, now()),
     ('${key}.confirm', 'base', '2026-11', 'dan', 'confirm', 1, '', 'x', 'charged', '${intent.latest_charge}', now())`,
    `INSERT INTO audit_log (actor, action, namespace, period, customer_id, amount_minor, currency)
     VALUES ('x', 'slot.charged', 'base', '2026-11', 'dan', 700, 'usd')`,
  ]);
  const report = await audit(stripeListWitness({ apiKey: TEST_KEY, apiBase: simulator.url }));
  expect(found(report)).toEqual(['history_differs dan', 'sum_differs -']);
  expect(report.findings[0]?.message).toBe('the slot is charged, and no activity ever answered so');
});

test('fails when a workflow worked on a customer outside the plan', async () => {
  const handle = await client.temporal.workflow.start('customerCharge', {
    workflowId: customerWorkflowId(slotRef('stranger', RUN)),
    taskQueue: 'nobody-polls-this',
    args: [slotRef('stranger', RUN)],
    typedSearchAttributes: runSearchAttributes(RUN),
  });
  try {
    await expect
      .poll(async () => found(await audit()), { timeout: 40_000 })
      .toContain('outside_plan stranger');
  } finally {
    await handle.terminate('end of test');
  }
});

test('treats a customer whose history Temporal does not have as absent, not as a contradiction', async () => {
  await tamper(databaseUrl, [
    `INSERT INTO billing_items SELECT namespace, period, 'eve', 5, 'cus_eve', NULL, 0, 'usd', NULL
     FROM billing_items WHERE customer_id = 'dan'`,
    `INSERT INTO billing_charges (namespace, period, customer_id, state, reason)
     VALUES ('base', '2026-11', 'eve', 'skipped', 'nothing_due')`,
    'UPDATE billing_runs SET customer_count = 5',
  ]);
  const report = await audit(stripeListWitness({ apiKey: TEST_KEY, apiBase: simulator.url }));
  expect(report.witnesses.temporal).toMatchObject({ status: 'read', absent: 1 });
  expect(found(report).filter((finding) => finding.endsWith('eve'))).toEqual([]);
});

/** A charge made at Stripe without any workflow, as an operator would by hand. */
async function chargeByHand(key: string) {
  const body = new URLSearchParams({
    amount: '700',
    currency: 'usd',
    customer: 'cus_dan',
    payment_method: 'pm_card_visa',
    'automatic_payment_methods[enabled]': 'true',
    'automatic_payment_methods[allow_redirects]': 'never',
    'metadata[chargeonce_namespace]': RUN.namespace,
    'metadata[chargeonce_customer]': 'dan',
    'metadata[chargeonce_period]': RUN.period,
    'metadata[chargeonce_key]': key,
    confirm: 'true',
    off_session: 'true',
  });
  const response = await fetch(`${simulator.url}/v1/payment_intents`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${TEST_KEY}`, 'Idempotency-Key': key },
    body,
  });
  const intent: unknown = await response.json();
  const { id, latest_charge: charge } = Object(intent);
  return { id: String(id), latest_charge: String(charge), body: body.toString() };
}
