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
/** Room for the hash of a few million reservations; without it they are written to disk and read again. */
const DRIFT_WORK_MEM = '128MB';

/**
 * Adds every window up from one snapshot: the count, the ledger, the reservations and the audit have to agree. Reads
 * only, so that it may run while money moves. In a transaction of the caller's it sees what that sees.
 */
export async function readDrift(db: Db): Promise<Drift> {
  const windows = await (db.isTransaction
    ? addUp(db)
    : db.transaction().setIsolationLevel('repeatable read').execute(addUp));
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

type WindowId = Pick<DriftRow, 'keyId' | 'currency' | 'window'>;

/** A statement per sum, so that each of them stays below its time-out with millions of rows. */
async function addUp(trx: Db): Promise<DriftRow[]> {
  await sql`SET LOCAL statement_timeout = ${sql.lit(DRIFT_STATEMENT_TIMEOUT)}`.execute(trx);
  await sql`SET LOCAL work_mem = ${sql.lit(DRIFT_WORK_MEM)}`.execute(trx);
  const windows = await sql<WindowId & { usedMinor: number }>`
    SELECT key_id AS "keyId", currency, "window", used_minor AS "usedMinor"
    FROM vault_windows ORDER BY key_id, currency, "window"`.execute(trx);
  const ledger = byWindow((await LEDGER_SUMS.execute(trx)).rows);
  const reservations = byWindow((await RESERVATION_SUMS.execute(trx)).rows);
  const audit = byWindow((await AUDIT_SUMS.execute(trx)).rows);
  return windows.rows.map((window) => {
    const { ledgerMinor = 0, settledMinor = 0 } = ledger.get(nameOf(window)) ?? {};
    const { reservationsMinor = 0, spentMinor = 0 } = reservations.get(nameOf(window)) ?? {};
    const { auditedMinor = 0 } = audit.get(nameOf(window)) ?? {};
    return { ...window, ledgerMinor, settledMinor, reservationsMinor, spentMinor, auditedMinor };
  });
}

const nameOf = ({ keyId, currency, window }: WindowId): string => `${keyId} ${currency} ${window}`;

function byWindow<Row extends WindowId>(rows: readonly Row[]): Map<string, Row> {
  return new Map(rows.map((row) => [nameOf(row), row]));
}

const LEDGER_SUMS = sql<WindowId & Pick<DriftRow, 'ledgerMinor' | 'settledMinor'>>`
  SELECT key_id AS "keyId", currency, "window",
    sum(CASE entry WHEN 'reserve' THEN amount_minor WHEN 'release' THEN -amount_minor ELSE 0 END)::bigint
      AS "ledgerMinor",
    coalesce(sum(amount_minor) FILTER (WHERE entry = 'settle'), 0)::bigint AS "settledMinor"
  FROM vault_ledger GROUP BY 1, 2, 3`;

const RESERVATION_SUMS = sql<WindowId & Pick<DriftRow, 'reservationsMinor' | 'spentMinor'>>`
  SELECT key_id AS "keyId", currency, "window", sum(amount_minor)::bigint AS "reservationsMinor",
    coalesce(sum(amount_minor) FILTER (WHERE state = 'spent'), 0)::bigint AS "spentMinor"
  FROM vault_reservations WHERE state IN ('held', 'spent') GROUP BY 1, 2, 3`;

// EXISTS in WHERE, where it becomes one hash join; among the columns it would be a search per row.
const AUDIT_SUMS = sql<WindowId & Pick<DriftRow, 'auditedMinor'>>`
  SELECT r.key_id AS "keyId", r.currency, r."window", sum(r.amount_minor)::bigint AS "auditedMinor"
  FROM vault_reservations r
  WHERE r.state IN ('held', 'spent') AND EXISTS (
    SELECT FROM vault_requests q
    WHERE q.reservation_id = r.reservation_id AND q.decision = 'forward'
      AND q.amount_minor = r.amount_minor AND q.currency = r.currency)
  GROUP BY 1, 2, 3`;
