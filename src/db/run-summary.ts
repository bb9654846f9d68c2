import { sql, type Kysely } from 'kysely';
import type { OutcomeCounts, SlotState } from '../domain/charge.ts';
import type { RunRef } from '../domain/ids.ts';
import type { Db } from './database.ts';
import type { RunControl } from './runs.ts';
import type { DB, RunState } from './schema.ts';

/** A period as the database knows it. Amounts are minor units per currency. */
export interface RunSummary {
  readonly state: RunState;
  /** what an operator, or a refused API key, last ordered */
  readonly control: RunControl;
  readonly controlNote: string | null;
  readonly customers: number;
  readonly counts: OutcomeCounts;
  /** slots claimed or sent and not settled: work in progress, or stopped in the middle */
  readonly inProgress: number;
  readonly inReview: number;
  /** of the indeterminate: Stripe is at work on them (bank debits), and says so itself when it is over */
  readonly processing: number;
  /** customers of the frozen list that nobody has claimed */
  readonly unclaimed: number;
  readonly chargedMinorByCurrency: Readonly<Record<string, number>>;
  readonly expectedMinorByCurrency: Readonly<Record<string, number>>;
  readonly plannedAt: Date;
  readonly completedAt: Date | null;
}

/** A million customers take seconds to count; the pool gives a query up after ten. */
const SUMMARY_STATEMENT_TIMEOUT = '9s';

interface OutcomeRow {
  readonly state: SlotState | null;
  readonly currency: string;
  readonly customers: number;
  readonly amount: number;
  readonly processing: number;
}

/** Counts and sums of a period in one snapshot; null when it was never planned. */
export async function readRunSummary(db: Kysely<DB>, run: RunRef): Promise<RunSummary | null> {
  return db
    .transaction()
    .setIsolationLevel('repeatable read')
    .setAccessMode('read only')
    .execute(async (trx) => {
      await sql`SET LOCAL statement_timeout = ${sql.lit(SUMMARY_STATEMENT_TIMEOUT)}`.execute(trx);
      const head = await trx
        .selectFrom('billing_runs')
        .select([
          'state',
          'control',
          'control_note',
          'customer_count',
          'planned_at',
          'completed_at',
        ])
        .where('namespace', '=', run.namespace)
        .where('period', '=', run.period)
        .executeTakeFirst();
      if (head === undefined) return null;
      const expected = await trx
        .selectFrom('billing_run_totals')
        .select(['currency', 'amount_minor'])
        .where('namespace', '=', run.namespace)
        .where('period', '=', run.period)
        .execute();
      const { rows } = await sql<OutcomeRow>`
        SELECT c.state, i.currency, count(*) AS customers, sum(i.amount_minor)::bigint AS amount,
          count(*) FILTER (WHERE c.state = 'indeterminate' AND c.reason = 'processing') AS processing
        FROM billing_items i LEFT JOIN billing_charges c USING (namespace, period, customer_id)
        WHERE i.namespace = ${run.namespace} AND i.period = ${run.period}
        GROUP BY c.state, i.currency`.execute(trx);
      return summaryOf(head, rows, expected);
    });
}

function summaryOf(
  head: {
    readonly state: RunState;
    readonly control: string;
    readonly control_note: string | null;
    readonly customer_count: number;
    readonly planned_at: Date;
    readonly completed_at: Date | null;
  },
  rows: readonly OutcomeRow[],
  expected: readonly { readonly currency: string; readonly amount_minor: number }[],
): RunSummary {
  const count = (state: SlotState | null): number =>
    rows.filter((row) => row.state === state).reduce((sum, row) => sum + row.customers, 0);
  const charged = rows.filter((row) => row.state === 'charged');
  return {
    state: head.state,
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the column's check is the parser
    control: head.control as RunControl,
    controlNote: head.control_note,
    customers: head.customer_count,
    counts: {
      charged: count('charged'),
      declined: count('declined'),
      indeterminate: count('indeterminate'),
      blocked: count('blocked'),
      skipped: count('skipped'),
      misconfigured: count('misconfigured'),
    },
    inProgress: count('claimed') + count('sent'),
    inReview: count('in_review'),
    processing: rows.reduce((sum, row) => sum + row.processing, 0),
    unclaimed: count(null),
    chargedMinorByCurrency: Object.fromEntries(charged.map((row) => [row.currency, row.amount])),
    expectedMinorByCurrency: Object.fromEntries(
      expected.map((row) => [row.currency, row.amount_minor]),
    ),
    plannedAt: head.planned_at,
    completedAt: head.completed_at,
  };
}

export interface ReasonCount {
  readonly state: SlotState;
  readonly reason: string;
  readonly advice: string | null;
  readonly customers: number;
}

/** Why customers were not charged, most frequent first. */
export async function readReasons(db: Db, run: RunRef): Promise<readonly ReasonCount[]> {
  const rows = await db
    .selectFrom('billing_charges')
    .select((select) => ['state', 'reason', 'advice', select.fn.countAll<number>().as('customers')])
    .where('namespace', '=', run.namespace)
    .where('period', '=', run.period)
    .where('reason', 'is not', null)
    .groupBy(['state', 'reason', 'advice'])
    .orderBy('customers', 'desc')
    .execute();
  return rows.map((row) => ({ ...row, reason: row.reason ?? '' }));
}
