import { sql } from 'kysely';
import type { Transaction } from 'kysely';
import type { DB } from '../db/schema.ts';
import type { CheckedRow } from './customer-row.ts';
import type { ProblemList } from './problem-list.ts';
import { MAX_LISTED_PROBLEMS } from './problem-list.ts';

/** A line of the file on its way; `row` is absent where the line has problems. */
export type StagedLine = Pick<CheckedRow, 'customerId' | 'row'> & { readonly line: number };

/** What became of the customers in the file. */
export type MergeCounts = { readonly inserted: number; readonly updated: number };

// Bounds each statement well below the pool's statement time-out.
const MERGE_LINES = 5000;

const MAX_LISTED_SHARED = 100;

/** A table of this transaction alone: it is gone with it, however it ends. */
export async function createStaging(trx: Transaction<DB>): Promise<void> {
  await sql`CREATE TEMPORARY TABLE import_staging (
    line               integer PRIMARY KEY,
    customer_id        text COLLATE "C" NOT NULL,
    stripe_customer_id text,
    payment_method_id  text,
    amount_minor       bigint,
    currency           text,
    description        text,
    active             boolean
  ) ON COMMIT DROP`.execute(trx);
}

/** Adds lines; one statement for the whole batch. */
export async function stage(trx: Transaction<DB>, lines: readonly StagedLine[]): Promise<void> {
  const withId = lines.filter(({ customerId }) => customerId !== undefined);
  if (withId.length === 0) return;
  const rows = withId.map(({ row }) => row);
  await sql`INSERT INTO import_staging
    SELECT * FROM unnest(
      ${withId.map(({ line }) => line)}::integer[],
      ${withId.map(({ customerId }) => customerId)}::text[],
      ${rows.map((row) => row?.stripeCustomerId ?? null)}::text[],
      ${rows.map((row) => row?.paymentMethodId ?? null)}::text[],
      ${rows.map((row) => row?.amountMinor ?? null)}::bigint[],
      ${rows.map((row) => row?.currency ?? null)}::text[],
      ${rows.map((row) => row?.description ?? null)}::text[],
      ${rows.map((row) => row?.active ?? null)}::boolean[]
    )`.execute(trx);
}

/** Reports every line that repeats the id of an earlier one. */
export async function reportDuplicates(trx: Transaction<DB>, problems: ProblemList): Promise<void> {
  const { rows } = await sql<{
    line: number;
    customer_id: string;
    first_line: number;
    total: number;
  }>`
    SELECT line, customer_id, first_line, count(*) OVER () AS total
      FROM (SELECT line, customer_id, min(line) OVER (PARTITION BY customer_id) AS first_line
              FROM import_staging) AS staged
     WHERE line > first_line
     ORDER BY line
     LIMIT ${MAX_LISTED_PROBLEMS}`.execute(trx);
  for (const row of rows) {
    problems.add({
      line: row.line,
      column: 'customer_id',
      value: row.customer_id,
      message: `the customer is there twice, first on line ${row.first_line}`,
    });
  }
  problems.addUnlisted((rows[0]?.total ?? 0) - rows.length);
}

/**
 * Writes the staged lines into `customers`; rows that say the same already are left alone. Called
 * twice with one file, the second time changes nothing. Reads and writes no other table, so that
 * a period that is planned keeps its items.
 */
export async function mergeStaged(trx: Transaction<DB>, lastLine: number): Promise<MergeCounts> {
  let inserted = 0;
  let updated = 0;
  for (let from = 0; from <= lastLine; from += MERGE_LINES) {
    const counts = await mergeLines(trx, { from, to: from + MERGE_LINES });
    inserted += counts.inserted;
    updated += counts.updated;
  }
  return { inserted, updated };
}

async function mergeLines(
  trx: Transaction<DB>,
  lines: { readonly from: number; readonly to: number },
): Promise<MergeCounts> {
  // xmax is 0 on a row version that this statement inserted and did not update.
  const { rows } = await sql<MergeCounts>`
    WITH merged AS (
      INSERT INTO customers AS existing (
        customer_id, stripe_customer_id, payment_method_id, amount_minor, currency, description,
        active
      )
      SELECT customer_id, stripe_customer_id, payment_method_id, amount_minor, currency,
             description, active
        FROM import_staging
       WHERE line >= ${lines.from} AND line < ${lines.to}
       ORDER BY customer_id
      ON CONFLICT (customer_id) DO UPDATE SET
        stripe_customer_id = excluded.stripe_customer_id,
        payment_method_id = excluded.payment_method_id,
        amount_minor = excluded.amount_minor,
        currency = excluded.currency,
        description = excluded.description,
        active = excluded.active,
        updated_at = now()
      WHERE (existing.stripe_customer_id, existing.payment_method_id, existing.amount_minor,
             existing.currency, existing.description, existing.active)
        IS DISTINCT FROM
            (excluded.stripe_customer_id, excluded.payment_method_id, excluded.amount_minor,
             excluded.currency, excluded.description, excluded.active)
      RETURNING existing.xmax = 0 AS was_inserted
    )
    SELECT count(*) FILTER (WHERE was_inserted) AS inserted,
           count(*) FILTER (WHERE NOT was_inserted) AS updated
      FROM merged`.execute(trx);
  return rows[0] ?? { inserted: 0, updated: 0 };
}

/** What is allowed but seldom meant, after the merge. */
export async function mergeWarnings(trx: Transaction<DB>): Promise<string[]> {
  return [...(await sharedStripeCustomers(trx)), ...(await leftOut(trx))];
}

async function sharedStripeCustomers(trx: Transaction<DB>): Promise<string[]> {
  const { rows } = await sql<{ id: string; customers: string[]; total: number }>`
    SELECT stripe_customer_id AS id,
           (array_agg(customer_id ORDER BY customer_id))[1:5] AS customers,
           count(*) OVER () AS total
      FROM customers
     WHERE stripe_customer_id IN (SELECT stripe_customer_id FROM import_staging)
     GROUP BY stripe_customer_id
    HAVING count(*) > 1
     ORDER BY stripe_customer_id
     LIMIT ${MAX_LISTED_SHARED}`.execute(trx);
  const warnings = rows.map(
    ({ id, customers }) =>
      `Stripe customer ${id} is shared by ${customers.join(', ')}: each of them is charged`,
  );
  const unlisted = (rows[0]?.total ?? 0) - rows.length;
  return unlisted > 0 ? [...warnings, `${unlisted} more Stripe customers are shared`] : warnings;
}

async function leftOut(trx: Transaction<DB>): Promise<string[]> {
  const { rows } = await sql<{ total: number }>`
    SELECT count(*) AS total
      FROM customers
     WHERE active
       AND NOT EXISTS (SELECT FROM import_staging
                        WHERE import_staging.customer_id = customers.customer_id)`.execute(trx);
  const total = rows[0]?.total ?? 0;
  if (total === 0) return [];
  return [
    `${total} active ${total === 1 ? 'customer is' : 'customers are'} not in this file and ` +
      'will still be charged; import a line with active = false to stop that',
  ];
}
