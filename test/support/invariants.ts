import { WorkflowNotFoundError, type Client as TemporalClient } from '@temporalio/client';
import { Client } from 'pg';
import type { Simulator } from '../../src/simulator/index.ts';

/** What the checker reads: three witnesses, none through the code under test. */
export interface Witnesses {
  readonly databaseUrl: string;
  readonly simulator: Pick<Simulator, 'ledger' | 'requests'> & {
    counters(): Pick<ReturnType<Simulator['counters']>, 'faults'>;
  };
  /** null where the test has taken the histories away, and says so */
  readonly temporal: TemporalClient | null;
  readonly run: { readonly namespace: string; readonly period: string };
  /** customers whose evidence at Stripe the fault plan removed: they may stay unknown */
  readonly mayStayUnknown?: readonly string[];
  /** a fault that never fired makes the green void; true unless the test sets none */
  readonly faultsFired?: boolean;
}

export interface Report {
  readonly verdict: 'pass' | 'fail' | 'unknown';
  readonly violations: readonly string[];
  /** what could not be read or was never seen: reasons for "unknown" */
  readonly unknowns: readonly string[];
}

interface Slot {
  readonly customer_id: string;
  readonly stripe_customer_id: string;
  readonly state: string | null;
  readonly generation: number | null;
  readonly payment_intent_id: string | null;
  readonly charge_id: string | null;
  readonly amount_minor: string;
  readonly currency: string;
}
interface Generation {
  readonly customer_id: string;
  readonly idempotency_key: string;
  readonly operation: string;
  readonly generation: number;
  readonly outcome: string | null;
  readonly created_at: Date;
  readonly first_sent_at: Date | null;
  readonly finished_at: Date | null;
}
interface Attempt {
  readonly attempt_id: string;
  readonly idempotency_key: string;
}
interface Entry {
  readonly action: string;
  readonly customer_id: string | null;
  readonly amount_minor: string | null;
  readonly currency: string | null;
}
interface Rows {
  readonly planned: number;
  readonly slots: readonly Slot[];
  readonly generations: readonly Generation[];
  readonly attempts: readonly Attempt[];
  readonly audit: readonly Entry[];
}

const FINAL = new Set(['charged', 'declined', 'blocked', 'skipped', 'misconfigured']);

/** Throws unless all invariants hold and everything that had to be seen was seen. */
export async function assertInvariants(witnesses: Witnesses): Promise<void> {
  const report = await checkInvariants(witnesses);
  if (report.verdict === 'pass') return;
  throw new Error(
    `verdict ${report.verdict}:\n${[...report.violations, ...report.unknowns].join('\n')}`,
  );
}

/** Compares the witnesses. Read after the faults have healed and the run has closed. */
export async function checkInvariants(witnesses: Witnesses): Promise<Report> {
  const violations: string[] = [];
  const unknowns: string[] = [];
  const rows = await readRows(witnesses);
  if (rows.planned === 0) unknowns.push('no customer was planned');
  if (rows.slots.length !== rows.planned)
    unknowns.push(`${rows.slots.length} items for ${rows.planned} planned customers`);
  everySlotEnds(rows, witnesses, violations);
  ledgerAgrees(rows, witnesses, violations);
  sendsAgree(rows, witnesses, violations);
  sumsAgree(rows, witnesses, violations);
  recordsAgree(rows, violations);
  generationsAgree(rows, violations);
  if (witnesses.temporal !== null)
    await historiesAgree(
      rows,
      { ...witnesses, temporal: witnesses.temporal },
      { violations, unknowns },
    );
  for (const fault of witnesses.simulator.counters().faults) {
    if (witnesses.faultsFired !== false && fault.fired === 0)
      unknowns.push(`fault ${fault.id} (${fault.kind}) never fired`);
  }
  const verdict = violations.length > 0 ? 'fail' : unknowns.length > 0 ? 'unknown' : 'pass';
  return { verdict, violations, unknowns };
}

async function readRows({ databaseUrl, run }: Witnesses): Promise<Rows> {
  const client = new Client({ connectionString: databaseUrl });
  await client.connect();
  const of = [run.namespace, run.period];
  try {
    const planned = await client.query<{ customer_count: number }>(
      'SELECT customer_count FROM billing_runs WHERE namespace = $1 AND period = $2',
      of,
    );
    const slots = await client.query<Slot>(
      `SELECT i.customer_id, i.stripe_customer_id, c.state, c.generation, c.payment_intent_id, c.charge_id, i.amount_minor, i.currency
       FROM billing_items i LEFT JOIN billing_charges c USING (namespace, period, customer_id)
       WHERE i.namespace = $1 AND i.period = $2`,
      of,
    );
    const generations = await client.query<Generation>(
      'SELECT * FROM charge_generations WHERE namespace = $1 AND period = $2 ORDER BY generation',
      of,
    );
    const attempts = await client.query<Attempt>(
      `SELECT a.attempt_id, a.idempotency_key FROM charge_attempts a JOIN charge_generations g USING (idempotency_key)
       WHERE g.namespace = $1 AND g.period = $2`,
      of,
    );
    const audit = await client.query<Entry>(
      'SELECT action, customer_id, amount_minor, currency FROM audit_log WHERE namespace = $1 AND period = $2 ORDER BY id',
      of,
    );
    return {
      planned: planned.rows[0]?.customer_count ?? 0,
      slots: slots.rows,
      generations: generations.rows,
      attempts: attempts.rows,
      audit: audit.rows,
    };
  } finally {
    await client.end();
  }
}

/** I2: exactly one slot with one final outcome for every customer of the frozen list. */
function everySlotEnds(rows: Rows, { mayStayUnknown = [] }: Witnesses, violations: string[]): void {
  for (const slot of rows.slots) {
    if (slot.state !== null && FINAL.has(slot.state)) continue;
    const excused = slot.state === 'indeterminate' && mayStayUnknown.includes(slot.customer_id);
    if (!excused)
      violations.push(`I2: ${slot.customer_id} ended ${slot.state ?? 'without a slot'}`);
  }
}

/** I1, I4: what we say of each slot is what the simulator's ledger says, by metadata, never by key. */
function ledgerAgrees(rows: Rows, { simulator, run }: Witnesses, violations: string[]): void {
  const { entries, groups } = simulator.ledger({ namespace: run.namespace, period: run.period });
  const known = new Set(rows.slots.map((slot) => slot.customer_id));
  for (const group of groups) {
    if (!known.has(group.customer))
      violations.push(`I4: Stripe knows ${group.customer}, who was never planned`);
    if (group.succeeded > 1)
      violations.push(`I1: ${group.customer} was charged ${group.succeeded} times`);
  }
  for (const slot of rows.slots) {
    const mine = entries.filter(
      (entry) => entry.metadata['chargeonce_customer'] === slot.customer_id,
    );
    const confirmed = mine.filter((entry) => entry.charges.length > 0);
    if (confirmed.length > 1)
      violations.push(`I1: ${slot.customer_id} has ${confirmed.length} confirmed PaymentIntents`);
    const paid = mine.filter((entry) =>
      entry.charges.some((charge) => charge.status === 'succeeded'),
    );
    const [entry] = paid;
    if ((slot.state === 'charged') !== (paid.length === 1)) {
      violations.push(
        `I4: ${slot.customer_id} is ${slot.state ?? 'nothing'} here and was paid ${paid.length} times there`,
      );
    } else if (entry !== undefined) {
      const ours = [
        slot.payment_intent_id,
        slot.charge_id,
        slot.amount_minor,
        slot.currency,
        slot.stripe_customer_id,
      ];
      const theirs = [
        entry.paymentIntent,
        entry.charge,
        String(entry.amount),
        entry.currency,
        entry.customer,
      ];
      if (ours.join() !== theirs.join())
        violations.push(`I4: ${slot.customer_id}: ${ours.join()} here, ${theirs.join()} there`);
    }
  }
}

/** I3: one key and one body per generation, each send recorded before it left, each with its own attempt id. */
function sendsAgree(rows: Rows, { simulator }: Witnesses, violations: string[]): void {
  const keys = new Map(
    rows.generations.map((generation) => [generation.idempotency_key, generation]),
  );
  const recorded = new Map(
    rows.attempts.map((attempt) => [attempt.attempt_id, attempt.idempotency_key]),
  );
  const bodies = new Map<string, string>();
  const seen = new Set<string>();
  for (const request of simulator.requests()) {
    const key = request.idempotencyKey;
    if (request.method !== 'POST') continue;
    if (key === null) {
      violations.push(`I3: ${request.path} was sent without a key`);
      continue;
    }
    const generation = keys.get(key);
    // Another run's key, or one that was never stored: the latter has no attempt either.
    if (generation === undefined) continue;
    if (generation.first_sent_at === null)
      violations.push(`I3: ${key} was sent and not marked as sent`);
    if (request.attemptId === null || recorded.get(request.attemptId) !== key) {
      violations.push(`I3: a send under ${key} has no recorded attempt (${request.attemptId})`);
    } else if (seen.has(request.attemptId)) {
      violations.push(`I3: attempt ${request.attemptId} was sent twice`);
    } else {
      seen.add(request.attemptId);
    }
    if (request.bodyHash === null) continue;
    const body = bodies.get(key) ?? request.bodyHash;
    if (body !== request.bodyHash) violations.push(`I3: ${key} carried two bodies`);
    bodies.set(key, body);
  }
  const { entries } = simulator.ledger();
  const mine = new Set(rows.slots.map((slot) => slot.payment_intent_id));
  for (const entry of entries) {
    if (!mine.has(entry.paymentIntent)) continue;
    for (const key of entry.idempotencyKeys)
      if (!keys.has(key))
        violations.push(`I3: ${entry.paymentIntent} knows a key that we do not: ${key}`);
  }
}

type Money = readonly { readonly currency: string | null; readonly amount: string | number }[];

function sums(money: Money): string {
  const total = new Map<string, bigint>();
  for (const { currency, amount } of money) {
    total.set(currency ?? '', (total.get(currency ?? '') ?? 0n) + BigInt(amount));
  }
  return [...total]
    .map(([currency, amount]) => `${currency} ${amount}`)
    .sort()
    .join(', ');
}

/** I6: the same sums per currency in slots, audit log and the simulator. */
function sumsAgree(rows: Rows, { simulator, run }: Witnesses, violations: string[]): void {
  const { entries } = simulator.ledger({ namespace: run.namespace, period: run.period });
  const slots = sums(
    rows.slots
      .filter((slot) => slot.state === 'charged')
      .map((slot) => ({ currency: slot.currency, amount: slot.amount_minor })),
  );
  const log = sums(
    rows.audit
      .filter((entry) => entry.action === 'slot.charged')
      .map((entry) => ({ currency: entry.currency, amount: entry.amount_minor ?? '0' })),
  );
  const stripe = sums(
    entries.flatMap((entry) =>
      entry.charges
        .filter((charge) => charge.status === 'succeeded')
        .map((charge) => ({ currency: entry.currency, amount: charge.amount })),
    ),
  );
  if (slots !== log || slots !== stripe)
    violations.push(`I6: slots ${slots}; audit ${log}; Stripe ${stripe}`);
}

/** I7: the log tells each settled slot's end, and nothing after a charge. */
function recordsAgree(rows: Rows, violations: string[]): void {
  for (const slot of rows.slots) {
    const told = rows.audit.filter(
      (entry) => entry.customer_id === slot.customer_id && entry.action.startsWith('slot.'),
    );
    if (slot.state === 'skipped') continue;
    const last = told.at(-1)?.action;
    if (slot.state !== null && FINAL.has(slot.state) && last !== `slot.${slot.state}`) {
      violations.push(
        `I7: ${slot.customer_id} is ${slot.state}, the log ends with ${last ?? 'nothing'}`,
      );
    }
    const charged = told.findIndex((entry) => entry.action === 'slot.charged');
    if (charged !== -1 && charged !== told.length - 1)
      violations.push(`I7: ${slot.customer_id} has entries after its charge`);
  }
}

/** I9: a generation begins only after the one before it ended in a refusal and by an order, or was proven to have done nothing. */
function generationsAgree(rows: Rows, violations: string[]): void {
  for (const slot of rows.slots) {
    const confirms = rows.generations.filter(
      (one) => one.customer_id === slot.customer_id && one.operation === 'confirm',
    );
    const orders = rows.audit.filter(
      (entry) => entry.customer_id === slot.customer_id && entry.action === 'rerun.accepted',
    ).length;
    const proofs = rows.audit.filter(
      (entry) => entry.customer_id === slot.customer_id && entry.action === 'slot.absent',
    ).length;
    if (confirms.length > 1 + orders + proofs)
      violations.push(
        `I9: ${slot.customer_id} has ${confirms.length} generations, ${orders} orders and ${proofs} proofs of absence`,
      );
    for (const [i, later] of confirms.entries()) {
      const earlier = confirms[i - 1];
      if (earlier === undefined) continue;
      const ended = earlier.finished_at !== null && earlier.finished_at <= later.created_at;
      if (!ended || !['declined', 'misconfigured', 'absent'].includes(earlier.outcome ?? '')) {
        violations.push(
          `I9: ${slot.customer_id} began generation ${later.generation} after ${earlier.outcome ?? 'no answer'}`,
        );
      }
    }
  }
}

/** Temporal's side: every customer had a workflow under its derived id, and it ended as the slot says. */
async function historiesAgree(
  rows: Rows,
  { temporal, run }: Witnesses & { readonly temporal: TemporalClient },
  found: { readonly violations: string[]; readonly unknowns: string[] },
): Promise<void> {
  const root =
    run.namespace === 'base' ? `billing-${run.period}` : `billing-${run.period}.${run.namespace}`;
  for (const slot of rows.slots) {
    const handle = temporal.workflow.getHandle(`${root}/${slot.customer_id}`);
    try {
      const { status } = await handle.describe();
      if (status.name !== 'COMPLETED')
        found.violations.push(`I2: the workflow of ${slot.customer_id} is ${status.name}`);
      else {
        const result: unknown = await handle.result();
        const outcome =
          typeof result === 'object' && result !== null && 'outcome' in result
            ? result.outcome
            : null;
        if (outcome !== slot.state)
          found.violations.push(
            `I4: ${slot.customer_id} is ${slot.state} here, its workflow said ${String(outcome)}`,
          );
      }
    } catch (error) {
      if (!(error instanceof WorkflowNotFoundError)) throw error;
      found.unknowns.push(`Temporal has no workflow of ${slot.customer_id}`);
    }
  }
}
