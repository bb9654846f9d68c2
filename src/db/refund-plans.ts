import { sql } from 'kysely';
import type { IdempotencyKey } from '../domain/idempotency-key.ts';
import { writeAuditEntry } from './audit-log.ts';
import type { Db } from './database.ts';
import type { RefundKind, RefundState } from './schema.ts';

/** A charge to give back, as it was found. */
export interface LineToPlan {
  readonly kind: RefundKind;
  readonly why: string;
  readonly namespace: string | null;
  readonly period: string;
  readonly customerId: string | null;
  readonly stripeCustomerId: string | null;
  readonly chargeId: string;
  readonly paymentIntentId: string | null;
  readonly keptChargeId: string;
  readonly amountMinor: number;
  readonly currency: string;
  readonly refundedBeforeMinor: number;
}

export interface PlanToStore {
  readonly account: string;
  readonly liveMode: boolean;
  readonly operator: string;
  readonly fingerprint: string;
  readonly lines: readonly LineToPlan[];
  /** key and bytes of a line, decided here and never again */
  readonly freeze: (place: {
    planId: number;
    line: number;
    chargeId: string;
    amountMinor: number;
  }) => { key: IdempotencyKey; body: string; apiVersion: string };
}

export interface RefundLine extends LineToPlan {
  readonly planId: number;
  readonly line: number;
  readonly key: string;
  readonly state: RefundState;
  readonly sentBefore: boolean;
  /** by the database clock; such a send may still arrive at Stripe, and its key is remembered there */
  readonly sentWithinADay: boolean;
  readonly refundId: string | null;
  readonly reason: string | null;
}

export interface RefundPlan {
  readonly planId: number;
  readonly account: string;
  readonly liveMode: boolean;
  readonly plannedBy: string;
  readonly plannedAt: Date;
  readonly orderedBy: string | null;
  readonly orderedAt: Date | null;
  readonly lines: readonly RefundLine[];
}

/** Lines of one insert: keeps a statement far below Postgres's limit of parameters. */
const INSERT_LINES = 500;

/**
 * Stores a plan with all keys and bytes, and answers its id. The same findings again, or by two at
 * once, are the same plan as long as nobody has ordered it.
 */
export async function storePlan(db: Db, plan: PlanToStore): Promise<number> {
  return db.transaction().execute(async (trx) => {
    const made = await trx
      .insertInto('refund_plans')
      .values({
        stripe_account: plan.account,
        live_mode: plan.liveMode,
        fingerprint: plan.fingerprint,
        planned_by: plan.operator,
      })
      .onConflict((conflict) =>
        conflict.column('fingerprint').where('ordered_at', 'is', null).doNothing(),
      )
      .returning('plan_id')
      .executeTakeFirst();
    if (made === undefined) {
      const waiting = await trx
        .selectFrom('refund_plans')
        .select('plan_id')
        .where('fingerprint', '=', plan.fingerprint)
        .where('ordered_at', 'is', null)
        .executeTakeFirstOrThrow();
      return waiting.plan_id;
    }
    const planId = made.plan_id;
    const rows = plan.lines.map((line, index) => rowOf(line, { planId, line: index + 1 }, plan));
    for (let at = 0; at < rows.length; at += INSERT_LINES) {
      await trx
        .insertInto('refund_plan_lines')
        .values(rows.slice(at, at + INSERT_LINES))
        .execute();
    }
    await writeAuditEntry(trx, {
      actor: plan.operator,
      action: 'refund.planned',
      details: { plan: planId, lines: rows.length },
    });
    return planId;
  });
}

function rowOf(line: LineToPlan, place: { planId: number; line: number }, plan: PlanToStore) {
  const { chargeId, amountMinor } = line;
  const frozen = plan.freeze({ ...place, chargeId, amountMinor });
  return {
    plan_id: place.planId,
    line: place.line,
    kind: line.kind,
    why: line.why,
    namespace: line.namespace,
    period: line.period,
    customer_id: line.customerId,
    stripe_customer_id: line.stripeCustomerId,
    charge_id: chargeId,
    payment_intent_id: line.paymentIntentId,
    kept_charge_id: line.keptChargeId,
    amount_minor: amountMinor,
    currency: line.currency,
    refunded_before_minor: line.refundedBeforeMinor,
    idempotency_key: frozen.key,
    request_body: frozen.body,
    api_version: frozen.apiVersion,
  };
}

/** A plan with its lines as they stand; null when there is none of that id. Reads only. */
export async function readPlan(db: Db, planId: number): Promise<RefundPlan | null> {
  const plan = await db
    .selectFrom('refund_plans')
    .selectAll()
    .where('plan_id', '=', planId)
    .executeTakeFirst();
  if (plan === undefined) return null;
  const lines = await db
    .selectFrom('refund_plan_lines as line')
    .selectAll()
    .select(
      sql<boolean>`EXISTS (SELECT FROM refund_attempts a WHERE a.plan_id = line.plan_id
        AND a.line = line.line AND a.sent_at > now() - interval '24 hours')`.as(
        'sent_within_a_day',
      ),
    )
    .where('plan_id', '=', planId)
    .orderBy('line')
    .execute();
  return {
    planId,
    account: plan.stripe_account,
    liveMode: plan.live_mode,
    plannedBy: plan.planned_by,
    plannedAt: plan.planned_at,
    orderedBy: plan.ordered_by,
    orderedAt: plan.ordered_at,
    lines: lines.map((row) => ({
      planId,
      line: row.line,
      kind: row.kind,
      why: row.why,
      namespace: row.namespace,
      period: row.period,
      customerId: row.customer_id,
      stripeCustomerId: row.stripe_customer_id,
      chargeId: row.charge_id,
      paymentIntentId: row.payment_intent_id,
      keptChargeId: row.kept_charge_id,
      amountMinor: row.amount_minor,
      currency: row.currency,
      refundedBeforeMinor: row.refunded_before_minor,
      key: row.idempotency_key,
      state: row.state,
      sentBefore: row.first_sent_at !== null,
      sentWithinADay: row.sent_within_a_day,
      refundId: row.refund_id,
      reason: row.reason,
    })),
  };
}

/** Writes down that somebody ordered the plan; each order is in the audit log, the first in the plan. */
export async function orderPlan(
  db: Db,
  planId: number,
  order: {
    readonly operator: string;
    readonly reason: string;
    readonly includeLikely: boolean;
    readonly lines: number;
  },
): Promise<void> {
  await db.transaction().execute(async (trx) => {
    await trx
      .updateTable('refund_plans')
      .set({ ordered_by: order.operator, order_reason: order.reason, ordered_at: sql`now()` })
      .where('plan_id', '=', planId)
      .where('ordered_at', 'is', null)
      .execute();
    await writeAuditEntry(trx, {
      actor: order.operator,
      action: 'refund.ordered',
      reason: order.reason,
      details: { plan: planId, lines: order.lines, includeLikely: order.includeLikely },
    });
  });
}

export interface CountedCharges {
  readonly charges: ReadonlySet<string>;
  readonly intents: ReadonlySet<string>;
}

/** Values asked for in one statement. */
const LOOKUP_PAGE = 5_000;

/**
 * Those of the charges and PaymentIntents that a slot counts on, settled or not: they must never be
 * given back. Reads only.
 */
export async function readCountedCharges(
  db: Db,
  asked: { readonly charges: readonly string[]; readonly intents: readonly string[] },
): Promise<CountedCharges> {
  const charges = new Set<string>();
  const intents = new Set<string>();
  for (const page of pages(asked.charges)) {
    const { rows } = await sql<{ id: string }>`
      SELECT charge_id AS id FROM billing_charges WHERE charge_id = ANY(${page})`.execute(db);
    for (const { id } of rows) charges.add(id);
  }
  for (const page of pages(asked.intents)) {
    const { rows } = await sql<{ id: string }>`
      SELECT payment_intent_id AS id FROM billing_charges
      WHERE payment_intent_id = ANY(${page})`.execute(db);
    for (const { id } of rows) intents.add(id);
  }
  return { charges, intents };
}

function* pages<T>(all: readonly T[]): Generator<readonly T[]> {
  for (let at = 0; at < all.length; at += LOOKUP_PAGE) yield all.slice(at, at + LOOKUP_PAGE);
}
