import { sql } from 'kysely';
import type { Db } from './database.ts';

/** One window, added up in four ways that never look at each other. */
export interface DriftRow {
  readonly keyId: string;
  readonly currency: string;
  readonly window: string;
  /** the count that decides */
  readonly usedMinor: number;
  /** Σ reserve − Σ release of the ledger */
  readonly ledgerMinor: number;
  /** Σ of the reservations that are held or spent */
  readonly reservationsMinor: number;
  /** Σ of the reservations that are spent */
  readonly spentMinor: number;
  /** Σ settle of the ledger */
  readonly settledMinor: number;
  /** Σ of the reservations that are held or spent and have an audit row that was forwarded with their sum */
  readonly auditedMinor: number;
}

export interface Drift {
  readonly windows: readonly DriftRow[];
  /** those where the sums differ; empty is what has to be */
  readonly differing: readonly DriftRow[];
}

/** Adding up a few million rows takes longer than a request may; the pool gives up after 10 s. */
const DRIFT_STATEMENT_TIMEOUT = '9s';

/**
 * Adds every window up from one snapshot: the count, the ledger, the reservations and the audit have to agree. Reads
 * only, so that it may run while money moves.
 */
export async function readDrift(db: Db): Promise<Drift> {
  const sums = async (trx: Db) => {
    await sql`SET LOCAL statement_timeout = ${sql.lit(DRIFT_STATEMENT_TIMEOUT)}`.execute(trx);
    return (await WINDOWS.execute(trx)).rows;
  };
  const windows = await (db.isTransaction ? sums(db) : db.transaction().execute(sums));
  return { windows, differing: windows.filter((row) => differs(row)) };
}

function differs(row: DriftRow): boolean {
  return (
    row.usedMinor !== row.ledgerMinor ||
    row.usedMinor !== row.reservationsMinor ||
    row.usedMinor !== row.auditedMinor ||
    row.spentMinor !== row.settledMinor
  );
}

const WINDOWS = sql<DriftRow>`
  WITH ledger AS (
    SELECT key_id, currency, "window",
      sum(CASE entry WHEN 'reserve' THEN amount_minor WHEN 'release' THEN -amount_minor ELSE 0 END) AS used,
      sum(amount_minor) FILTER (WHERE entry = 'settle') AS settled
    FROM vault_ledger GROUP BY 1, 2, 3
  ), audited AS (
    SELECT DISTINCT reservation_id, amount_minor, currency FROM vault_requests
    WHERE decision = 'forward' AND reservation_id IS NOT NULL
  ), reserved AS (
    SELECT r.key_id, r.currency, r."window", sum(r.amount_minor) AS used,
      sum(r.amount_minor) FILTER (WHERE r.state = 'spent') AS spent,
      sum(r.amount_minor) FILTER (WHERE a.reservation_id IS NOT NULL) AS audited
    FROM vault_reservations r LEFT JOIN audited a USING (reservation_id, amount_minor, currency)
    WHERE r.state IN ('held', 'spent') GROUP BY 1, 2, 3
  )
  SELECT w.key_id AS "keyId", w.currency, w."window", w.used_minor AS "usedMinor",
    coalesce(l.used, 0)::bigint AS "ledgerMinor", coalesce(r.used, 0)::bigint AS "reservationsMinor",
    coalesce(r.spent, 0)::bigint AS "spentMinor", coalesce(l.settled, 0)::bigint AS "settledMinor",
    coalesce(r.audited, 0)::bigint AS "auditedMinor"
  FROM vault_windows w
    LEFT JOIN ledger l USING (key_id, currency, "window")
    LEFT JOIN reserved r USING (key_id, currency, "window")
  ORDER BY w.key_id, w.currency, w."window"`;
