import { ApplicationFailure } from '@temporalio/common';
import { sql, type Kysely } from 'kysely';
import { charge } from '../../src/activities/charge.ts';
import { claimSlot } from '../../src/activities/claim-slot.ts';
import type { ActivityDeps } from '../../src/activities/deps.ts';
import { reconcile } from '../../src/activities/reconcile.ts';
import { record } from '../../src/activities/record.ts';
import { queryable } from '../../src/db/queryable.ts';
import { PostgresIdempotencyStore } from '../../src/http/idempotency/index.ts';
import { openDatabase } from '../../src/db/database.ts';
import { ensureEnvironment, requireEnvironment } from '../../src/db/environment.ts';
import { migrate } from '../../src/db/migrate.ts';
import { planRun } from '../../src/db/runs.ts';
import type { DB } from '../../src/db/schema.ts';
import { constraintOf } from '../../src/db/sqlstate.ts';
import type { ChargeResult } from '../../src/domain/charge.ts';
import type { RunRef, SlotRef } from '../../src/domain/ids.ts';
import type { PaymentGateway } from '../../src/payments/gateway.ts';
import { createStripeGateway } from '../../src/payments/stripe-gateway.ts';
import {
  startSimulator,
  type FaultRule,
  type Simulator,
  type SimulatorOptions,
} from '../../src/simulator/index.ts';
import { runRef, slotRef } from './names.ts';
import { testPostgres } from './postgres.ts';

export { runRef, slotRef };

export const TEST_KEY = 'sk_test_engine_1';

export interface TestCustomer {
  readonly id: string;
  readonly amountMinor?: number;
  readonly currency?: string;
  readonly paymentMethod?: string | null;
}

/** A migrated database of its own: a clone, so that a file pays for the migrations once. */
export async function migratedDatabase(): Promise<string> {
  const postgres = await testPostgres();
  const template = await postgres.template('migrated', async (url) => {
    await migrate(url);
  });
  return (await postgres.createDatabase({ template })).url;
}

/** Inserts customers as an import would leave them. */
export async function insertCustomers(
  db: Kysely<DB>,
  customers: readonly TestCustomer[],
): Promise<void> {
  await db
    .insertInto('customers')
    .values(
      customers.map(({ id, amountMinor, currency, paymentMethod }) => ({
        customer_id: id,
        stripe_customer_id: `cus_${id}`,
        payment_method_id: paymentMethod === undefined ? 'pm_card_visa' : paymentMethod,
        amount_minor: amountMinor ?? 1500,
        currency: currency ?? 'usd',
      })),
    )
    .execute();
}

export interface Engine {
  readonly databaseUrl: string;
  readonly db: Kysely<DB>;
  readonly simulator: Simulator;
  readonly deps: ActivityDeps;
  /** deps with some parts replaced, for one test */
  with(parts: Partial<ActivityDeps>): ActivityDeps;
  /** Imports the customers and plans the run. */
  plan(customers: readonly TestCustomer[], run?: RunRef): Promise<RunRef>;
  close(): Promise<void>;
}

export interface EngineOptions {
  readonly simulator?: SimulatorOptions;
  readonly poolSize?: number;
  readonly timeoutMs?: number;
  /** an engine that is there already: its database and simulator are used and left open */
  readonly adopt?: { readonly databaseUrl: string; readonly simulator: Simulator };
}

/** The activities' world on real parts: a migrated database, the Stripe client, the simulator. */
export async function startEngine(options: EngineOptions = {}): Promise<Engine> {
  const databaseUrl = options.adopt?.databaseUrl ?? (await migratedDatabase());
  const simulator =
    options.adopt?.simulator ??
    (await startSimulator({ endpointRate: 0, accountRate: 0, ...options.simulator }));
  const database = openDatabase({
    url: databaseUrl,
    applicationName: 'engine test',
    poolSize: options.poolSize ?? 10,
    onError: () => {},
  });
  const gateway = createStripeGateway({
    apiKey: TEST_KEY,
    apiBase: simulator.url,
    timeoutMs: options.timeoutMs ?? 5_000,
  });
  const account = (await gateway.account()).id;
  await ensureEnvironment(database.db, { account, liveMode: false });
  const deps: ActivityDeps = {
    db: database.db,
    gateway,
    vault: null,
    account,
    mode: 'test',
    worker: 'test',
    pace: async () => {},
    reconcilePausesMs: [1_000, 2_000],
    absenceQuietMs: 20,
    storedResponses: new PostgresIdempotencyStore(queryable(database.db)),
    crashPoint: async () => {},
    requireEnvironment: () => requireEnvironment(database.db, { account, liveMode: false }),
  };
  return {
    databaseUrl,
    db: database.db,
    simulator,
    deps,
    with: (parts) => ({ ...deps, ...parts }),
    async plan(customers, run = runRef()) {
      await insertCustomers(database.db, customers);
      await planRun(database.db, run, 'test');
      return run;
    },
    async close() {
      gateway.close();
      await database.close();
      if (options.adopt === undefined) await simulator.close();
    },
  };
}

/** A gateway with some calls replaced. */
export function gatewayWith(
  gateway: PaymentGateway,
  calls: Partial<PaymentGateway>,
): PaymentGateway {
  return {
    apiVersion: gateway.apiVersion,
    account: () => gateway.account(),
    createPaymentIntent: (send) => gateway.createPaymentIntent(send),
    confirmPaymentIntent: (id, send) => gateway.confirmPaymentIntent(id, send),
    retrievePaymentIntent: (id) => gateway.retrievePaymentIntent(id),
    listPaymentIntents: (query) => gateway.listPaymentIntents(query),
    listChargesOf: (id) => gateway.listChargesOf(id),
    retrieveCharge: (id) => gateway.retrieveCharge(id),
    listEvents: (query) => gateway.listEvents(query),
    ...calls,
  };
}

export interface SlotRow {
  readonly state: string;
  readonly generation: number;
  readonly reason: string | null;
  readonly advice: string | null;
  readonly payment_intent_id: string | null;
  readonly charge_id: string | null;
  readonly idempotency_key: string | null;
}

/** The slot's row; fails when there is none. */
export async function readSlot(db: Kysely<DB>, slot: SlotRef): Promise<SlotRow> {
  return db
    .selectFrom('billing_charges')
    .select([
      'state',
      'generation',
      'reason',
      'advice',
      'payment_intent_id',
      'charge_id',
      'idempotency_key',
    ])
    .where('namespace', '=', slot.namespace)
    .where('period', '=', slot.period)
    .where('customer_id', '=', slot.customerId)
    .executeTakeFirstOrThrow();
}

/** Makes the slot's keys look as if they were first sent that long ago: the database clock decides. */
export async function ageSends(db: Kysely<DB>, slot: SlotRef, interval: string): Promise<void> {
  await sql`
    UPDATE charge_generations SET first_sent_at = first_sent_at - ${interval}::interval
    WHERE customer_id = ${slot.customerId} AND period = ${slot.period} AND first_sent_at IS NOT NULL`.execute(
    db,
  );
}

/** The constraint that refused, or null when the work went through. */
export async function refusedBy(work: Promise<unknown>): Promise<string | null> {
  try {
    await work;
    return null;
  } catch (error) {
    const constraint = constraintOf(error);
    if (constraint === null) throw error;
    return constraint;
  }
}

/** Successful charges at the simulator for a customer: the count that "charged once" is about. */
export function chargesOf(simulator: Simulator, customer: string): number {
  const { groups } = simulator.ledger();
  return groups
    .filter((group) => group.customer === customer)
    .reduce((sum, group) => sum + group.succeeded, 0);
}

/** POSTs the simulator has seen, oldest first. */
export function postsOf(simulator: Simulator, operation: 'create' | 'confirm') {
  return simulator
    .requests()
    .filter((one) => one.method === 'POST' && one.endpoint === `payment_intents.${operation}`);
}

/** How a charge went when it is tried again as the retry policy would, without the pauses. */
export interface DrivenCharge {
  readonly result: ChargeResult | null;
  readonly attempts: number;
  /** types of the failures that asked for another try */
  readonly failures: readonly string[];
}

/** Runs the charge activity until it returns, or as often as the policy would. */
export async function driveCharge(
  deps: ActivityDeps,
  slot: SlotRef,
  options: { readonly generation?: number; readonly attempts?: number } = {},
): Promise<DrivenCharge> {
  const { generation = 1, attempts = 8 } = options;
  const failures: string[] = [];
  for (let attempt = 1; attempt <= attempts; attempt += 1) {
    try {
      const result = await charge(deps, { ...slot, generation }, attempt);
      return { result, attempts: attempt, failures };
    } catch (error) {
      if (!(error instanceof ApplicationFailure) || error.nonRetryable === true) throw error;
      failures.push(error.type ?? '');
    }
  }
  return { result: null, attempts, failures };
}

/**
 * What one pass of the customer's workflow does, without Temporal: claim, then charge or reconcile,
 * then record. Returns the slot's state afterwards.
 */
export async function attend(deps: ActivityDeps, slot: SlotRef, attempts = 8): Promise<string> {
  const answer = await claimSlot(deps, slot);
  if (answer.kind === 'claimed' || answer.kind === 'resumed') {
    await chargeAndRecord(deps, { ...slot, generation: answer.generation }, attempts);
  } else if (answer.kind === 'inDoubt') {
    const found = await reconcile(deps, { ...slot, generation: answer.generation });
    if (found.kind === 'settled') await record(deps, slot, found.charge);
    if (found.kind === 'resumable')
      await chargeAndRecord(deps, { ...slot, generation: found.generation }, attempts);
  }
  return (await readSlot(deps.db, slot)).state;
}

async function chargeAndRecord(
  deps: ActivityDeps,
  order: SlotRef & { readonly generation: number },
  attempts: number,
): Promise<void> {
  const { generation, ...slot } = order;
  const { result, failures } = await driveCharge(deps, slot, { generation, attempts });
  const unknown: ChargeResult = {
    generation,
    result: { outcome: 'indeterminate', reason: failures.at(-1) ?? 'unknown', advice: 'reconcile' },
    answer: null,
  };
  await record(deps, slot, result ?? unknown);
}

/** Gives out customers of an engine one by one, so that tests of a file do not meet. */
export function customersOf(
  engine: () => Engine,
  ids: readonly string[],
): { readonly fresh: () => SlotRef; readonly claimed: () => Promise<SlotRef> } {
  let next = 0;
  const fresh = (): SlotRef => {
    const id = ids[next];
    if (id === undefined) throw new Error('the file needs more customers');
    next += 1;
    return slotRef(id);
  };
  return {
    fresh,
    async claimed() {
      const slot = fresh();
      await claimSlot(engine().deps, slot);
      return slot;
    },
  };
}

/** Sets the simulator's faults; the rules' ids are made here. */
export function setFaults(simulator: Simulator, ...rules: Omit<FaultRule, 'id'>[]): void {
  simulator.setFaults({ rules: rules.map((rule, i) => ({ id: `rule${i}`, ...rule })) });
}
