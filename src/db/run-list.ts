import { sql } from 'kysely';
import type { Db } from './database.ts';
import type { RunControl } from './runs.ts';
import type { RunState } from './schema.ts';

/** A planned run as a list shows it; its counts cost a look at every customer and are not here. */
export interface ListedRun {
  readonly namespace: string;
  readonly period: string;
  readonly state: RunState;
  readonly control: RunControl;
  readonly controlNote: string | null;
  readonly customers: number;
  readonly expectedMinorByCurrency: Readonly<Record<string, number>>;
  readonly plannedBy: string;
  readonly plannedAt: Date;
  readonly completedAt: Date | null;
  /** `plannedAt` in microseconds since the epoch, as exact as the row: the list's order goes by it */
  readonly plannedMicros: number;
}

/** The run after which a page begins. */
export type RunCursor = readonly [plannedMicros: number, namespace: string, period: string];

/** Planned runs, the one planned last first: at most `limit`, after the cursor, by keyset. Reads only. */
export async function listRuns(
  db: Db,
  page: {
    readonly namespace?: string | undefined;
    readonly after?: RunCursor | undefined;
    readonly limit: number;
  },
): Promise<readonly ListedRun[]> {
  const { namespace, after, limit } = page;
  const inNamespace = namespace === undefined ? sql`true` : sql`r.namespace = ${namespace}`;
  const afterCursor =
    after === undefined
      ? sql`true`
      : sql`(r.planned_at, r.namespace, r.period) <
          (timestamptz 'epoch' + ${after[0]}::bigint * interval '1 microsecond', ${after[1]}::text, ${after[2]}::text)`;
  const { rows } = await sql<ListedRun>`
    SELECT r.namespace, r.period, r.state, r.control, r.control_note AS "controlNote",
      r.customer_count AS customers, r.planned_by AS "plannedBy", r.planned_at AS "plannedAt",
      r.completed_at AS "completedAt", (extract(epoch FROM r.planned_at) * 1000000)::bigint AS "plannedMicros",
      (SELECT coalesce(jsonb_object_agg(t.currency, t.amount_minor), '{}') FROM billing_run_totals t
        WHERE t.namespace = r.namespace AND t.period = r.period) AS "expectedMinorByCurrency"
    FROM billing_runs r WHERE ${inNamespace} AND ${afterCursor}
    ORDER BY r.planned_at DESC, r.namespace DESC, r.period DESC LIMIT ${limit}`.execute(db);
  return rows;
}
