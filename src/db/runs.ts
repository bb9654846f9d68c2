import { sql } from 'kysely';
import type { CustomerId } from '../domain/customer-id.ts';
import type { RunRef } from '../domain/ids.ts';
import { writeAuditEntry } from './audit-log.ts';
import type { Db } from './database.ts';
import type { RunState } from './schema.ts';
import { SERIALIZATION_FAILURE, sqlstateOf } from './sqlstate.ts';

export type { RunState };

export interface PlannedRun {
  readonly state: RunState;
  readonly customerCount: number;
}

/** Nobody is due: there is no active customer. */
export class NoCustomers extends Error {
  override readonly name = 'NoCustomers';
}

/** Counting a million rows takes longer than a claim may, and must stay under the pool's own limit (10 s). */
const PLAN_STATEMENT_TIMEOUT = '9s';
/** Items frozen by one statement: a fraction of a second, however many customers there are. */
const PLAN_PAGE = 20_000;

/** The run's row, or null when the period was never planned. */
export async function readRun(db: Db, run: RunRef): Promise<PlannedRun | null> {
  const row = await db
    .selectFrom('billing_runs')
    .select(['state', 'customer_count'])
    .where('namespace', '=', run.namespace)
    .where('period', '=', run.period)
    .executeTakeFirst();
  return row === undefined ? null : { state: row.state, customerCount: row.customer_count };
}

/**
 * Freezes what is due from every active customer, with the totals, from one snapshot. Twice, or by
 * two at once: the first plan stands and both read it.
 */
export async function planRun(db: Db, run: RunRef, plannedBy: string): Promise<PlannedRun> {
  const planned = await readRun(db, run);
  if (planned !== null) return planned;
  try {
    await db
      .transaction()
      .setIsolationLevel('repeatable read')
      .execute(async (trx) => {
        await sql`SET LOCAL statement_timeout = ${sql.lit(PLAN_STATEMENT_TIMEOUT)}`.execute(trx);
        await insertPlan(trx, run, plannedBy);
      });
  } catch (error) {
    // Our snapshot is older than the plan of whoever was faster: that plan stands.
    if (sqlstateOf(error) !== SERIALIZATION_FAILURE) throw error;
  }
  // A period's first queries would be planned as if its items were not there.
  await sql`ANALYZE billing_items`.execute(db);
  const stored = await readRun(db, run);
  if (stored === null) throw new Error(`the plan of ${run.period} was not stored`);
  return stored;
}

async function insertPlan(trx: Db, run: RunRef, plannedBy: string): Promise<void> {
  const { count } = await trx
    .selectFrom('customers')
    .select((select) => select.fn.countAll<number>().as('count'))
    .where('active', '=', true)
    .executeTakeFirstOrThrow();
  if (count === 0) {
    throw new NoCustomers(
      'no active customer: import them first (chargeonce import customers FILE.csv)',
    );
  }
  const won = await trx
    .insertInto('billing_runs')
    .values({
      namespace: run.namespace,
      period: run.period,
      customer_count: count,
      planned_by: plannedBy,
    })
    .onConflict((conflict) => conflict.columns(['namespace', 'period']).doNothing())
    .returning('state')
    .executeTakeFirst();
  if (won === undefined) return;
  await freezeItems(trx, run);
  // Expected is what can be charged: an item without payment method or amount is skipped.
  await sql`
    INSERT INTO billing_run_totals (namespace, period, currency, customer_count, amount_minor)
    SELECT namespace, period, currency, count(*)::integer, sum(amount_minor)::bigint
    FROM billing_items
    WHERE namespace = ${run.namespace} AND period = ${run.period}
      AND amount_minor > 0 AND payment_method_id IS NOT NULL
    GROUP BY namespace, period, currency`.execute(trx);
  await writeAuditEntry(trx, {
    actor: plannedBy,
    action: 'run.planned',
    namespace: run.namespace,
    period: run.period,
    details: { customers: count },
  });
}

/** Copies the active customers page by page, in the order of their ids, from the transaction's snapshot. */
async function freezeItems(trx: Db, run: RunRef): Promise<void> {
  let after = '';
  for (let placed = 0; ;) {
    const { rows } = await sql<{ last: string | null; frozen: number }>`
      WITH page AS (
        SELECT * FROM customers WHERE active AND customer_id > ${after}
        ORDER BY customer_id LIMIT ${PLAN_PAGE}
      ), items AS (
        INSERT INTO billing_items (namespace, period, customer_id, position, stripe_customer_id,
          payment_method_id, amount_minor, currency, description)
        SELECT ${run.namespace}, ${run.period}, customer_id,
          ${placed}::integer + row_number() OVER (ORDER BY customer_id),
          stripe_customer_id, payment_method_id, amount_minor, currency, description
        FROM page
      )
      SELECT max(customer_id) AS last, count(*)::integer AS frozen FROM page`.execute(trx);
    const page = rows[0];
    if (page === undefined || page.last === null) return;
    placed += page.frozen;
    after = page.last;
  }
}

/**
 * Moves the run's own state. A completed run stays completed: late reruns are served without opening
 * it again.
 */
export async function moveRun(
  db: Db,
  run: RunRef,
  to: { readonly state: RunState; readonly actor: string },
): Promise<void> {
  const { state, actor } = to;
  const over = state === 'completed' || state === 'stopped';
  await db.transaction().execute(async (trx) => {
    const moved = await trx
      .updateTable('billing_runs')
      .set({
        state,
        completed_at: over ? sql`now()` : null,
        // A stopped run that is started again, and one that ended, is nobody's to hold.
        control: sql`CASE WHEN ${state} = 'stopped' THEN 'stopped'
          WHEN ${state} = 'completed' OR state = 'stopped' THEN 'running' ELSE control END`,
        control_note: sql`CASE WHEN ${state} = 'completed' OR state = 'stopped' THEN NULL ELSE control_note END`,
      })
      .where('namespace', '=', run.namespace)
      .where('period', '=', run.period)
      .where('state', 'not in', ['completed', state])
      .returning('state')
      .executeTakeFirst();
    if (moved === undefined) return;
    await writeAuditEntry(trx, {
      actor,
      action: `run.${state}`,
      namespace: run.namespace,
      period: run.period,
    });
  });
}

export type RunControl = 'running' | 'paused' | 'stopped';

/** What was last ordered about a run, for status and the sweep; Temporal holds the order that is obeyed. */
export async function setControl(
  db: Db,
  run: RunRef,
  order: { readonly control: RunControl; readonly note: string | null },
): Promise<void> {
  await db
    .updateTable('billing_runs')
    .set({ control: order.control, control_note: order.note })
    .where('namespace', '=', run.namespace)
    .where('period', '=', run.period)
    .execute();
}

/** Whether the run is paused or stopped, as its row says. Reads only. */
export async function isHeld(db: Db, run: RunRef): Promise<boolean> {
  const row = await db
    .selectFrom('billing_runs')
    .select('control')
    .where('namespace', '=', run.namespace)
    .where('period', '=', run.period)
    .executeTakeFirst();
  return row !== undefined && row.control !== 'running';
}

/** A refused API key holds the run until somebody mends it. Twice: the first reason stays. */
export async function holdRun(db: Db, run: RunRef, reason: string): Promise<void> {
  await db
    .updateTable('billing_runs')
    .set({ control: 'paused', control_note: `paused by itself: ${reason}` })
    .where('namespace', '=', run.namespace)
    .where('period', '=', run.period)
    .where('control', '=', 'running')
    .where('state', 'in', ['planned', 'charging', 'settling'])
    .execute();
}

export interface ListedItem {
  readonly customerId: CustomerId;
  readonly amountMinor: number;
  readonly currency: string;
}

/** The items at positions (after, upTo], by position: one shard's customers, read by keyset. */
export async function listItems(
  db: Db,
  run: RunRef,
  range: { after: number; upTo: number },
): Promise<readonly ListedItem[]> {
  const rows = await db
    .selectFrom('billing_items')
    .select(['customer_id', 'amount_minor', 'currency'])
    .where('namespace', '=', run.namespace)
    .where('period', '=', run.period)
    .where('position', '>', range.after)
    .where('position', '<=', range.upTo)
    .orderBy('position')
    .execute();
  return rows.map((row) => ({
    // The column's check constraint is the parser of this id.
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion
    customerId: row.customer_id as CustomerId,
    amountMinor: row.amount_minor,
    currency: row.currency,
  }));
}
