import { sql } from 'kysely';
import type { OutcomeCounts, SlotState } from '../domain/charge.ts';
import type { RunRef } from '../domain/ids.ts';
import type { Db } from './database.ts';
import type { RunState } from './schema.ts';

/** A period as the database knows it. Amounts are minor units per currency. */
export interface RunSummary {
  readonly state: RunState;
  readonly customers: number;
  readonly counts: OutcomeCounts;
  /** slots claimed or sent and not settled: work in progress, or stopped in the middle */
  readonly inProgress: number;
  readonly inReview: number;
  /** customers of the frozen list that nobody has claimed */
  readonly unclaimed: number;
  readonly chargedMinorByCurrency: Readonly<Record<string, number>>;
  readonly expectedMinorByCurrency: Readonly<Record<string, number>>;
  readonly plannedAt: Date;
  readonly completedAt: Date | null;
}

/** Counts and sums of a period in one snapshot; null when it was never planned. */
export async function readRunSummary(db: Db, run: RunRef): Promise<RunSummary | null> {
  const { rows } = await sql<{
    state: RunState;
    customer_count: number;
    planned_at: Date;
    completed_at: Date | null;
    states: Partial<Record<SlotState, number>> | null;
    charged: Record<string, number> | null;
    expected: Record<string, number> | null;
  }>`
    SELECT r.state, r.customer_count, r.planned_at, r.completed_at,
      (SELECT jsonb_object_agg(state, n) FROM (
        SELECT state, count(*) AS n FROM billing_charges c
        WHERE c.namespace = r.namespace AND c.period = r.period GROUP BY state) s) AS states,
      (SELECT jsonb_object_agg(currency, amount) FROM (
        SELECT i.currency, sum(i.amount_minor) AS amount
        FROM billing_charges c JOIN billing_items i USING (namespace, period, customer_id)
        WHERE c.namespace = r.namespace AND c.period = r.period AND c.state = 'charged'
        GROUP BY i.currency) a) AS charged,
      (SELECT jsonb_object_agg(currency, amount_minor) FROM billing_run_totals t
        WHERE t.namespace = r.namespace AND t.period = r.period) AS expected
    FROM billing_runs r WHERE r.namespace = ${run.namespace} AND r.period = ${run.period}`.execute(
    db,
  );
  const row = rows[0];
  if (row === undefined) return null;
  const states = row.states ?? {};
  const count = (state: SlotState): number => states[state] ?? 0;
  const taken = Object.values(states).reduce((sum, n) => sum + n, 0);
  return {
    state: row.state,
    customers: row.customer_count,
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
    unclaimed: row.customer_count - taken,
    chargedMinorByCurrency: row.charged ?? {},
    expectedMinorByCurrency: row.expected ?? {},
    plannedAt: row.planned_at,
    completedAt: row.completed_at,
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
