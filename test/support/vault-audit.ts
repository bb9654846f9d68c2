import { sql } from 'kysely';
import type { Db } from '../../src/db/database.ts';

/** What the ledger holds of a key, by its own tables. */
export async function ledgerOf(
  db: Db,
  keyId: string,
): Promise<{
  readonly usedMinor: number;
  readonly reservations: readonly {
    state: string;
    reason: string;
    amountMinor: number;
    objectId: string | null;
  }[];
}> {
  const window = await sql<{ used: number }>`
    SELECT coalesce(sum(used_minor), 0)::bigint AS used FROM vault_windows WHERE key_id = ${keyId}`.execute(
    db,
  );
  const { rows } = await sql<{
    state: string;
    reason: string;
    amountMinor: number;
    objectId: string | null;
  }>`
    SELECT state, reason, amount_minor AS "amountMinor", object_id AS "objectId"
    FROM vault_reservations WHERE key_id = ${keyId} ORDER BY reservation_id`.execute(db);
  return { usedMinor: window.rows[0]?.used ?? 0, reservations: rows };
}

/** The audit of a key, oldest first: what was decided, and what came of it. */
export async function auditOf(
  db: Db,
  keyId: string,
): Promise<
  readonly {
    decision: string;
    path: string;
    idempotencyKey: string | null;
    attemptId: string | null;
    amountMinor: number | null;
    status: number | null;
    error: string | null;
    replayed: boolean | null;
    effect: string | null;
    stripeRequestId: string | null;
  }[]
> {
  const { rows } = await sql<Awaited<ReturnType<typeof auditOf>>[number]>`
    SELECT q.decision, q.path, q.idempotency_key AS "idempotencyKey", q.attempt_id AS "attemptId",
      q.amount_minor AS "amountMinor", a.status, a.error, a.replayed, a.effect, a.stripe_request_id AS "stripeRequestId"
    FROM vault_requests q LEFT JOIN vault_answers a USING (request_id)
    WHERE q.key_id = ${keyId} ORDER BY q.at, q.request_id`.execute(db);
  return rows;
}

/** Every row of the vault's tables as text, to look for what must not be there. */
export async function vaultTables(db: Db): Promise<readonly string[]> {
  const tables = await sql<{ name: string }>`
    SELECT table_name AS name FROM information_schema.tables WHERE table_name LIKE 'vault\\_%'`.execute(
    db,
  );
  const rows = await Promise.all(
    tables.rows.map(({ name }) =>
      sql<{ row: string }>`SELECT t::text AS row FROM ${sql.table(name)} t`.execute(db),
    ),
  );
  return rows.flatMap((one) => one.rows.map(({ row }) => row));
}
