import { sql, type RawBuilder } from 'kysely';
import type { SlotState } from '../domain/charge.ts';
import type { RunRef } from '../domain/ids.ts';
import type { Db } from './database.ts';

/** How a customer of a run stands; `unclaimed`: it is in the plan, and nobody has begun with it. */
export type CustomerOutcome = SlotState | 'unclaimed';

export const CUSTOMER_OUTCOMES = [
  'unclaimed',
  'claimed',
  'sent',
  'charged',
  'declined',
  'indeterminate',
  'blocked',
  'misconfigured',
  'skipped',
  'in_review',
] as const satisfies readonly CustomerOutcome[];

/** A customer of a run's plan, with its slot where it has one. Amounts are minor units. */
export interface RunCustomer {
  readonly customerId: string;
  readonly stripeCustomerId: string;
  readonly amountMinor: number;
  readonly currency: string;
  readonly outcome: CustomerOutcome;
  readonly reason: string | null;
  readonly advice: string | null;
  readonly generation: number | null;
  readonly paymentIntentId: string | null;
  readonly chargeId: string | null;
  readonly claimedAt: Date | null;
  readonly sentAt: Date | null;
  readonly settledAt: Date | null;
  readonly updatedAt: Date | null;
}

export interface CustomerQuery {
  readonly outcome: CustomerOutcome | null;
  /** a decline code, a skip reason, an error type: only slots that are not charged have one */
  readonly reason: string | null;
  /** the customer after whom the page begins; '' for the first page */
  readonly after: string;
  readonly limit: number;
  /** items that one look at the unclaimed goes through */
  readonly stretch?: number;
}

export interface CustomerPage {
  readonly customers: readonly RunCustomer[];
  /** where the next page begins; null when this one was the last. It may be set behind a page that is not full. */
  readonly next: string | null;
}

/**
 * Items that one look at the unclaimed goes through, and how many such looks one page may take: with a million
 * customers of whom all are claimed, a page takes half a second instead of all of them.
 */
const STRETCH = 20_000;
const MAX_STRETCHES = 5;

/**
 * One page of a run's customers, ordered by their ids. The plan is frozen, so that a page never shows again what one
 * before it has shown, and whoever fits the filter all the time is in one of them, however slots move meanwhile.
 */
export async function listRunCustomers(
  db: Db,
  run: RunRef,
  query: CustomerQuery,
): Promise<CustomerPage> {
  const { outcome, reason } = query;
  if (outcome === 'unclaimed') {
    return reason === null ? unclaimedPage(db, run, query) : { customers: [], next: null };
  }
  // One more than the page holds says whether there is a next one.
  const rows =
    outcome === null && reason === null
      ? await readAll(db, run, query)
      : await readSlots(db, run, query);
  return pageOf(rows, query.limit);
}

/** The plan's items from the cursor on, each with its slot. */
async function readAll(db: Db, run: RunRef, query: CustomerQuery): Promise<readonly RunCustomer[]> {
  // The page first: joined whole, a million items would be sorted for each hundred.
  const { rows } = await sql<RunCustomer>`
    WITH i AS MATERIALIZED (
      SELECT * FROM billing_items
      WHERE namespace = ${run.namespace} AND period = ${run.period} AND customer_id > ${query.after}
      ORDER BY customer_id LIMIT ${query.limit + 1})
    SELECT ${COLUMNS} FROM i LEFT JOIN billing_charges s USING (namespace, period, customer_id)
    ORDER BY i.customer_id`.execute(db);
  return rows;
}

/** Slots of an outcome, of a reason or of both, each with its item. */
async function readSlots(
  db: Db,
  run: RunRef,
  query: CustomerQuery,
): Promise<readonly RunCustomer[]> {
  const { rows } = await sql<RunCustomer>`
    WITH s AS MATERIALIZED (
      SELECT * FROM billing_charges
      WHERE namespace = ${run.namespace} AND period = ${run.period} AND customer_id > ${query.after}
        AND ${sql.join(conditionsOf(query), sql` AND `)}
      ORDER BY customer_id LIMIT ${query.limit + 1})
    SELECT ${COLUMNS} FROM s JOIN billing_items i USING (namespace, period, customer_id)
    ORDER BY i.customer_id`.execute(db);
  return rows;
}

function conditionsOf({ outcome, reason }: CustomerQuery): RawBuilder<unknown>[] {
  const conditions: RawBuilder<unknown>[] = [];
  // Literal, so that the partial indexes are known to hold it.
  if (outcome !== null) conditions.push(sql`state = ${sql.lit(outcome)}`);
  if (reason !== null) conditions.push(sql`reason = ${reason}`);
  return conditions;
}

/** Those without a slot, stretch by stretch: where all are claimed, a page ends empty and says how to go on. */
async function unclaimedPage(db: Db, run: RunRef, query: CustomerQuery): Promise<CustomerPage> {
  const found: RunCustomer[] = [];
  let { after } = query;
  for (let stretch = 0; stretch < MAX_STRETCHES; stretch += 1) {
    const { last, full } = await readStretch(db, run, { after, items: query.stretch ?? STRETCH });
    if (last === null) return { customers: found, next: null };
    const limit = query.limit - found.length + 1;
    found.push(...(await readUnclaimed(db, run, { after, last, limit })));
    if (found.length > query.limit || !full) return pageOf(found, query.limit);
    after = last;
  }
  return { customers: found, next: after };
}

/** Where the next so many items end, and whether there may be more behind them. */
async function readStretch(
  db: Db,
  run: RunRef,
  { after, items }: { readonly after: string; readonly items: number },
): Promise<{ readonly last: string | null; readonly full: boolean }> {
  const { rows } = await sql<{ last: string | null; items: number }>`
    SELECT max(customer_id) AS last, count(*)::integer AS items FROM (
      SELECT customer_id FROM billing_items
      WHERE namespace = ${run.namespace} AND period = ${run.period} AND customer_id > ${after}
      ORDER BY customer_id LIMIT ${items}) stretch`.execute(db);
  const [row] = rows;
  return { last: row?.last ?? null, full: row?.items === items };
}

async function readUnclaimed(
  db: Db,
  run: RunRef,
  stretch: { readonly after: string; readonly last: string; readonly limit: number },
): Promise<readonly RunCustomer[]> {
  const { after, last, limit } = stretch;
  const { rows } = await sql<RunCustomer>`
    SELECT ${COLUMNS} FROM billing_items i
    LEFT JOIN billing_charges s ON s.namespace = ${run.namespace} AND s.period = ${run.period}
      AND s.customer_id > ${after} AND s.customer_id <= ${last} AND s.customer_id = i.customer_id
    WHERE i.namespace = ${run.namespace} AND i.period = ${run.period}
      AND i.customer_id > ${after} AND i.customer_id <= ${last} AND s.customer_id IS NULL
    ORDER BY i.customer_id LIMIT ${limit}`.execute(db);
  return rows;
}

/** What a page shows of an item `i` and its slot `s`. */
const COLUMNS = sql`i.customer_id AS "customerId", i.stripe_customer_id AS "stripeCustomerId",
  i.amount_minor AS "amountMinor", i.currency, coalesce(s.state::text, 'unclaimed') AS outcome, s.reason, s.advice,
  s.generation, s.payment_intent_id AS "paymentIntentId", s.charge_id AS "chargeId", s.claimed_at AS "claimedAt",
  s.sent_at AS "sentAt", s.settled_at AS "settledAt", s.updated_at AS "updatedAt"`;

function pageOf(rows: readonly RunCustomer[], limit: number): CustomerPage {
  if (rows.length <= limit) return { customers: rows, next: null };
  const customers = rows.slice(0, limit);
  return { customers, next: customers.at(-1)?.customerId ?? null };
}
