import type { Kysely } from 'kysely';
import { Stripe } from 'stripe';
import { readPlan } from '../../src/db/refund-plans.ts';
import type { DB } from '../../src/db/schema.ts';
import { createStripeGateway } from '../../src/payments/stripe-gateway.ts';
import type { RefundDeps } from '../../src/refunds/deps.ts';
import { ChargeCollection, type Found } from '../../src/refunds/find-duplicates.ts';
import { findWithSlots, planRefunds } from '../../src/refunds/plan-refunds.ts';
import type { RefundCrashPoint } from '../../src/refunds/deps.ts';
import { executePlan, type ExecutedPlan } from '../../src/refunds/execute-plan.ts';
import type { RequestEntry, Simulator } from '../../src/simulator/index.ts';
import {
  attend,
  migratedDatabase,
  readSlot,
  runRef,
  slotRef,
  startEngine,
  TEST_KEY,
  type Engine,
} from './engine.ts';

const FOREVER = { createdGte: 0, createdLt: 4_000_000_000 };

/** Refunds on the engine's database and simulator; `close` ends its sockets. */
interface RefundBench {
  readonly deps: RefundDeps;
  with(parts: Partial<RefundDeps>): RefundDeps;
  /** What `chargeonce duplicates` finds now. */
  find(): Promise<Found>;
  /** Finds and plans; fails when there is nothing to plan. */
  plan(): Promise<number>;
  close(): void;
}

function refundBench(engine: Engine, stripeTimeoutMs = 5_000): RefundBench {
  const gateway = createStripeGateway({
    apiKey: TEST_KEY,
    apiBase: engine.simulator.url,
    timeoutMs: stripeTimeoutMs,
  });
  const deps: RefundDeps = {
    db: engine.db,
    refunds: gateway.refunds,
    account: engine.deps.account,
    mode: 'test',
    worker: 'test',
    crashPoint: async () => {},
  };
  const find = async (): Promise<Found> => {
    const collection = new ChargeCollection({ zone: 'UTC', granularity: 'month' });
    for await (const page of gateway.refunds.listCharges(FOREVER))
      page.forEach((one) => collection.add(one));
    return findWithSlots(deps, collection.all());
  };
  return {
    deps,
    with: (parts) => ({ ...deps, ...parts }),
    find,
    async plan() {
      const planId = await planRefunds(deps, (await find()).duplicates, 'alice');
      if (planId === null) throw new Error('nothing to plan');
      return planId;
    },
    close: () => gateway.close(),
  };
}

/** A charge as a job of somebody else's makes it, under a key of its own. */
export async function foreignCharge(
  stripe: Stripe,
  customer: string,
  more: Partial<Stripe.PaymentIntentCreateParams> = {},
): Promise<string> {
  const intent = await stripe.paymentIntents.create({
    amount: 1500,
    currency: 'usd',
    customer: `cus_${customer}`,
    payment_method: 'pm_card_visa',
    confirm: true,
    off_session: true,
    automatic_payment_methods: { enabled: true, allow_redirects: 'never' },
    ...more,
  });
  const charge = intent.latest_charge;
  return typeof charge === 'string' ? charge : (charge?.id ?? '');
}

/** Line by line: state and reason, as they stand. */
async function lineStates(db: Kysely<DB>, planId: number): Promise<readonly string[]> {
  const plan = await readPlan(db, planId);
  return (plan?.lines ?? []).map(({ state, reason }) =>
    reason === null ? state : `${state} ${reason}`,
  );
}

const slot = slotRef('cust_1', runRef('2026-11'));
const ORDER = { operator: 'bob', reason: 'charged twice', includeLikely: false };

/** cust_1, whom we have charged, and whom somebody else has charged for the same slot. */
export interface PaidTwice extends RefundBench {
  readonly engine: Engine;
  readonly stripe: Stripe;
  /** the charge that the slot counts on */
  readonly ours: string;
  readonly extra: string;
  /** One more charge for the same slot. */
  chargeAgain(more?: Partial<Stripe.PaymentIntentCreateParams>): Promise<string>;
  execute(
    planId: number,
    deps?: RefundDeps,
    more?: { includeLikely: boolean },
  ): Promise<ExecutedPlan>;
  /** What a process is that dies there. */
  dyingAt(point: RefundCrashPoint): RefundDeps;
  states(planId: number): Promise<readonly string[]>;
  /** What the provider has given back of a charge, in how many refunds. */
  givenBack(charge: string): Promise<{ refunds: number; amount: number }>;
  /** Refunds that were sent, oldest first. */
  posts(): readonly RequestEntry[];
  /** The refund entries of the audit log, as one line each. */
  audit(): Promise<readonly string[]>;
  end(): Promise<void>;
}

/** The starting state of the refund tests, on a database of its own and a simulator that is emptied. */
export async function paidTwice(simulator: Simulator): Promise<PaidTwice> {
  simulator.reset();
  simulator.setFaults(undefined);
  const engine = await startEngine({ adopt: { databaseUrl: await migratedDatabase(), simulator } });
  await engine.plan([{ id: 'cust_1' }], slot);
  await attend(engine.deps, slot);
  const stripe = new Stripe(TEST_KEY, {
    host: '127.0.0.1',
    port: simulator.port,
    protocol: 'http',
    maxNetworkRetries: 0,
    telemetry: false,
  });
  const bench = refundBench(engine, 2_000);
  const metadata = {
    chargeonce_namespace: 'base',
    chargeonce_customer: 'cust_1',
    chargeonce_period: '2026-11',
  };
  const chargeAgain: PaidTwice['chargeAgain'] = (more) =>
    foreignCharge(stripe, 'cust_1', { metadata, ...more });
  return {
    ...bench,
    engine,
    stripe,
    ours: (await readSlot(engine.db, slot)).charge_id ?? '',
    extra: await chargeAgain(),
    chargeAgain,
    execute: (planId, deps = bench.deps, more = { includeLikely: false }) =>
      executePlan(deps, { planId, ...ORDER, ...more }),
    dyingAt: (point) =>
      bench.with({
        crashPoint: async (reached) => {
          if (reached === point) throw new Error(`died at ${point}`);
        },
      }),
    states: (planId) => lineStates(engine.db, planId),
    async givenBack(charge) {
      const { data } = await stripe.refunds.list({ charge });
      return { refunds: data.length, amount: data.reduce((sum, { amount }) => sum + amount, 0) };
    },
    posts: () => simulator.requests().filter(({ endpoint }) => endpoint === 'refunds.create'),
    async audit() {
      const rows = await engine.db
        .selectFrom('audit_log')
        .select(['actor', 'action', 'amount_minor', 'reason'])
        .where('action', 'like', 'refund.%')
        .orderBy('id')
        .execute();
      return rows.map((row) => [row.actor, row.action, row.amount_minor, row.reason].join(' '));
    },
    async end() {
      bench.close();
      await engine.close();
    },
  };
}
