import { Client } from 'pg';
import { charge } from '../../src/activities/charge.ts';
import { claimSlot } from '../../src/activities/claim-slot.ts';
import { record } from '../../src/activities/record.ts';
import {
  auditPeriod,
  simulatorLedgerWitness,
  type AuditReport,
  type ProviderWitness,
  type TemporalWitness,
} from '../../src/audit/index.ts';
import { moveRun } from '../../src/db/runs.ts';
import { runRef, slotRef, startEngine, TEST_KEY, type Engine } from '../support/engine.ts';

export const RUN = runRef();

const CUSTOMERS = [
  { id: 'ada', amountMinor: 1500 },
  { id: 'bob', amountMinor: 900, currency: 'eur' },
  { id: 'cleo', paymentMethod: 'pm_card_visa_chargeDeclined' },
  { id: 'dan', paymentMethod: null },
];

export interface Intruder {
  readonly customer: string;
  readonly key: string;
  readonly paymentMethod?: string;
  readonly confirm?: boolean;
  readonly metadataKey?: string;
}

export interface AuditWitnesses {
  readonly provider?: ProviderWitness;
  readonly temporal?: TemporalWitness | null;
}

/** A completed period of four customers (two charged, one declined, one skipped), and ways to spoil it. */
export class BilledPeriod {
  readonly engine: Engine;
  readonly ledger: ProviderWitness;

  constructor(engine: Engine) {
    this.engine = engine;
    this.ledger = simulatorLedgerWitness(engine.simulator.url);
  }

  static async bill(): Promise<BilledPeriod> {
    const engine = await startEngine();
    await engine.plan(CUSTOMERS, RUN);
    for (const { id } of CUSTOMERS) await billOne(engine, id);
    await moveRun(engine.db, RUN, { state: 'completed', actor: 'test' });
    return new BilledPeriod(engine);
  }

  audit({ provider = this.ledger, temporal = null }: AuditWitnesses = {}): Promise<AuditReport> {
    return auditPeriod({ databaseUrl: this.engine.databaseUrl, run: RUN, provider, temporal });
  }

  tamper(...statements: string[]): Promise<void> {
    return tamper(this.engine.databaseUrl, statements);
  }

  /** A PaymentIntent made through Stripe's API by somebody else than the run, with our metadata. */
  async intrude(one: Intruder): Promise<void> {
    const known = await this.createKeyOf(one.customer);
    const body = new URLSearchParams({
      amount: '1500',
      currency: 'usd',
      customer: `cus_${one.customer}`,
      payment_method: one.paymentMethod ?? 'pm_card_visa',
      'automatic_payment_methods[enabled]': 'true',
      'automatic_payment_methods[allow_redirects]': 'never',
      'metadata[chargeonce_namespace]': RUN.namespace,
      'metadata[chargeonce_period]': RUN.period,
      'metadata[chargeonce_customer]': one.customer,
      'metadata[chargeonce_key]': one.metadataKey ?? known ?? 'none',
    });
    if (one.confirm !== false) {
      body.set('confirm', 'true');
      body.set('off_session', 'true');
    }
    await this.post('/v1/payment_intents', { key: one.key, body });
  }

  async post(
    path: string,
    send: { key: string; body: URLSearchParams; attemptId?: string },
  ): Promise<number> {
    const response = await fetch(`${this.engine.simulator.url}${path}`, {
      method: 'POST',
      headers: {
        Authorization: `Bearer ${TEST_KEY}`,
        'Idempotency-Key': send.key,
        ...(send.attemptId === undefined ? {} : { 'X-Attempt-Id': send.attemptId }),
      },
      body: send.body,
    });
    await response.text();
    return response.status;
  }

  async createKeyOf(customer: string): Promise<string | null> {
    const row = await this.engine.db
      .selectFrom('charge_generations')
      .select('idempotency_key')
      .where('customer_id', '=', customer)
      .where('operation', '=', 'create')
      .executeTakeFirst();
    return row?.idempotency_key ?? null;
  }

  close(): Promise<void> {
    return this.engine.close();
  }
}

/** claim, charge, record: what the customer's workflow does. */
async function billOne({ deps }: Engine, id: string): Promise<void> {
  const slot = slotRef(id, RUN);
  const answer = await claimSlot(deps, slot);
  if (answer.kind !== 'claimed') return;
  const { generation } = answer;
  await record(deps, slot, await charge(deps, { ...slot, generation }, 1));
}

/** Changes rows as no code of ours could: triggers and foreign keys are off for this session. */
export async function tamper(databaseUrl: string, statements: readonly string[]): Promise<void> {
  const client = new Client({ connectionString: databaseUrl });
  await client.connect();
  try {
    await client.query("SET session_replication_role = 'replica'");
    for (const statement of statements) await client.query(statement);
  } finally {
    await client.end();
  }
}

/** "kind customer" of every finding, in order of the alphabet. */
export function found(report: AuditReport): string[] {
  return report.findings.map(({ kind, customerId }) => `${kind} ${customerId ?? '-'}`).toSorted();
}
