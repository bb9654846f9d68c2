import { sql } from 'kysely';
import type { RunRef } from '../domain/ids.ts';
import { capOf } from '../domain/spend-cap.ts';
import type { Db } from './database.ts';
import {
  KEY_COLUMNS,
  keyOf,
  noteKeyChange,
  storeCaps,
  storeKey,
  type KeyOrder,
  type KeyRow,
  type VaultKey,
} from './vault-key-rows.ts';

export type { KeyOrder, VaultKey } from './vault-key-rows.ts';

/** What a cap's window holds. A cap per day has a window per UTC date; every cap has at least one. */
export interface Budget {
  readonly currency: string;
  /** '' or, for a cap per day, its UTC date */
  readonly window: string;
  readonly capMinor: number;
  readonly expectedMinor: number | null;
  readonly reservedMinor: number;
  readonly spentMinor: number;
}

/** Who changes a key, and why: both end up in vault_key_changes. */
export interface KeyChange {
  readonly keyId: string;
  readonly operator: string;
  readonly reason: string;
}

/** A late rerun or the sweep sends for minutes, not for ever. */
const OPEN_AFTER_RUN = '15 minutes';

/** How many keys a list shows, newest first. */
const LISTED_KEYS = 500;

/** Stores a new key with its caps and who made it, in one commit. Twice with one id: the second one throws. */
export async function insertVaultKey(db: Db, order: KeyOrder): Promise<void> {
  await db.transaction().execute(async (trx) => {
    await storeKey(trx, order);
    await storeCaps(trx, order.keyId, order.caps);
    await noteKeyChange(trx, {
      keyId: order.keyId,
      actor: order.actor,
      action: 'created',
      details: { caps: order.caps },
    });
  });
}

/** The key with this public part, or null. */
export async function findVaultKey(db: Db, keyId: string): Promise<VaultKey | null> {
  const { rows } = await sql<KeyRow>`
    SELECT ${KEY_COLUMNS} FROM vault_keys WHERE key_id = ${keyId}`.execute(db);
  return rows[0] === undefined ? null : keyOf(rows[0]);
}

/** The newest keys first, revoked and expired ones included; at most 500. */
export async function listVaultKeys(db: Db): Promise<readonly VaultKey[]> {
  const { rows } = await sql<KeyRow>`
    SELECT ${KEY_COLUMNS} FROM vault_keys ORDER BY created_at DESC, key_id LIMIT ${LISTED_KEYS}`.execute(
    db,
  );
  return rows.map((row) => keyOf(row));
}

/**
 * What is used of every cap of a key, from one snapshot, by currency and window. Held sums are few and have an index;
 * what is used and not held is spent, which the drift check proves.
 */
export async function readBudgets(db: Db, keyId: string): Promise<readonly Budget[]> {
  const { rows } = await sql<Budget>`
    SELECT c.currency, coalesce(w."window", '') AS "window", c.cap_minor AS "capMinor",
      c.expected_minor AS "expectedMinor", h.held AS "reservedMinor",
      coalesce(w.used_minor, 0) - h.held AS "spentMinor"
    FROM vault_caps c
    LEFT JOIN vault_windows w USING (key_id, currency)
    CROSS JOIN LATERAL (
      SELECT coalesce(sum(r.amount_minor), 0)::bigint AS held FROM vault_reservations r
      WHERE r.key_id = c.key_id AND r.currency = c.currency AND r."window" = w."window" AND r.state = 'held') h
    WHERE c.key_id = ${keyId} ORDER BY c.currency, w."window"`.execute(db);
  return rows;
}

/** `notRaised`: the cap already is as high or higher, and stays. */
export type CapRaised = 'raised' | 'notRaised' | 'noCap';

/**
 * Raises a cap, never lowers one: what is reserved already could not be taken back. Twice: the second one raises
 * nothing.
 */
export async function raiseCap(
  db: Db,
  change: KeyChange & { readonly currency: string; readonly capMinor: number },
): Promise<CapRaised> {
  const { keyId, currency, capMinor, operator, reason } = change;
  return db.transaction().execute(async (trx) => {
    const { rows } = await sql<{ before: number | null }>`
      SELECT vault_raise(${keyId}, ${currency}, ${capMinor}) AS before`.execute(trx);
    const before = rows[0]?.before ?? null;
    if (before === null) return 'noCap';
    if (capMinor <= before) return 'notRaised';
    const details = { currency, from: before, to: capMinor };
    await noteKeyChange(trx, { keyId, actor: operator, action: 'cap_raised', reason, details });
    return 'raised';
  });
}

/** Lets a key expire later, never earlier. False when it is unknown or expires later anyway. */
export async function extendExpiry(
  db: Db,
  change: KeyChange & { readonly expiresAt: Date },
): Promise<boolean> {
  const { keyId, expiresAt, operator, reason } = change;
  return db.transaction().execute(async (trx) => {
    const { rows } = await sql`
      UPDATE vault_keys SET expires_at = ${expiresAt} WHERE key_id = ${keyId} AND expires_at < ${expiresAt}
      RETURNING key_id`.execute(trx);
    if (rows.length === 0) return false;
    const details = { expires_at: expiresAt.toISOString() };
    await noteKeyChange(trx, {
      keyId,
      actor: operator,
      action: 'expiry_extended',
      reason,
      details,
    });
    return true;
  });
}

/** Ends a key for good; the next request with it is refused. Twice: the first time stands. False when unknown. */
export async function revokeVaultKey(db: Db, change: KeyChange): Promise<boolean> {
  const { keyId, operator, reason } = change;
  return db.transaction().execute(async (trx) => {
    const { rows } = await sql`
      UPDATE vault_keys SET revoked_at = now() WHERE key_id = ${keyId} AND revoked_at IS NULL
      RETURNING key_id`.execute(trx);
    if (rows.length > 0) {
      await noteKeyChange(trx, { keyId, actor: operator, action: 'revoked', reason });
      return true;
    }
    return (await findVaultKey(trx, keyId)) !== null;
  });
}

/** What the frozen plan expects, per currency; empty when nothing of it is chargeable. Null: it was never planned. */
export async function readRunTotals(
  db: Db,
  { namespace, period }: RunRef,
): Promise<readonly { readonly currency: string; readonly expectedMinor: number }[] | null> {
  const { rows } = await sql<{ currency: string | null; expected: number | null }>`
    SELECT t.currency, t.amount_minor AS expected
    FROM billing_runs r LEFT JOIN billing_run_totals t USING (namespace, period)
    WHERE r.namespace = ${namespace} AND r.period = ${period} ORDER BY t.currency`.execute(db);
  if (rows.length === 0) return null;
  return rows.flatMap(({ currency, expected }) =>
    currency === null || expected === null ? [] : [{ currency, expectedMinor: expected }],
  );
}

export interface RunKeyOrder {
  readonly run: RunRef;
  readonly keyId: string;
  readonly secretHash: Buffer;
  readonly account: string;
  readonly liveMode: boolean;
  readonly allowedEndpoints: readonly string[];
  /** of a key that is made now; one that is there keeps its own */
  readonly expiresAt: Date;
  readonly actor: string;
}

export type RunKeyOpened =
  | { readonly kind: 'open'; readonly key: VaultKey; readonly budgets: readonly Budget[] }
  | { readonly kind: 'notPlanned' }
  | { readonly kind: 'revoked' };

/**
 * Opens the run's one key, and makes it at the first call, with its caps from the frozen plan. Twice, or by twenty at
 * once: one key, the same caps, counts untouched. Another secret (a rotated run token) or another release's endpoints
 * replace what is stored, and are logged.
 */
export async function openRunKey(db: Db, order: RunKeyOrder): Promise<RunKeyOpened> {
  const totals = await readRunTotals(db, order.run);
  if (totals === null) return { kind: 'notPlanned' };
  return db.transaction().execute(async (trx) => {
    await makeRunKey(trx, order, totals);
    const stored = await lockRunKey(trx, order.run);
    if (stored === null) throw new Error(`vault key ${order.keyId} belongs to something else`);
    if (stored.revokedAt !== null) return { kind: 'revoked' };
    if (stored.keyId !== order.keyId)
      throw new Error(`the run of ${order.run.period} has the vault key ${stored.keyId} already`);
    await replaceParts(trx, order, stored);
    const key = await openStoredKey(trx, order);
    return { kind: 'open', key, budgets: await readBudgets(trx, key.keyId) };
  });
}

async function makeRunKey(
  trx: Db,
  order: RunKeyOrder,
  totals: readonly { readonly currency: string; readonly expectedMinor: number }[],
): Promise<void> {
  const { run, ...parts } = order;
  const caps = totals.map(({ currency, expectedMinor }) => ({
    currency,
    expectedMinor,
    capMinor: capOf(expectedMinor),
  }));
  const key: KeyOrder = { ...parts, ...run, capBasis: 'billing_period', caps };
  // Whoever is second waits here until the first one's key and caps are committed.
  if (!(await storeKey(trx, key, sql`ON CONFLICT DO NOTHING`))) return;
  await storeCaps(trx, order.keyId, caps);
  const { keyId, actor } = order;
  await noteKeyChange(trx, { keyId, actor, action: 'created', details: { caps } });
}

async function lockRunKey(trx: Db, { namespace, period }: RunRef): Promise<VaultKey | null> {
  const { rows } = await sql<KeyRow>`
    SELECT ${KEY_COLUMNS} FROM vault_keys WHERE namespace = ${namespace} AND period = ${period}
    FOR NO KEY UPDATE`.execute(trx);
  return rows[0] === undefined ? null : keyOf(rows[0]);
}

/** What the vault itself says about a run's key may change with its token and its release; the counts stay. */
async function replaceParts(trx: Db, order: RunKeyOrder, stored: VaultKey): Promise<void> {
  const { keyId, actor, secretHash, allowedEndpoints } = order;
  if (!stored.secretHash.equals(secretHash)) {
    await sql`UPDATE vault_keys SET secret_hash = ${secretHash} WHERE key_id = ${keyId}`.execute(
      trx,
    );
    await noteKeyChange(trx, { keyId, actor, action: 'secret_rotated' });
  }
  if (stored.allowedEndpoints.join('\n') !== allowedEndpoints.join('\n')) {
    await sql`UPDATE vault_keys SET allowed_endpoints = ${allowedEndpoints} WHERE key_id = ${keyId}`.execute(
      trx,
    );
    const details = { from: stored.allowedEndpoints, to: allowedEndpoints };
    await noteKeyChange(trx, { keyId, actor, action: 'endpoints_changed', details });
  }
}

/** Opens it for as long as the run's state allows, and logs it where that changes something. */
async function openStoredKey(trx: Db, { keyId, run, actor }: RunKeyOrder): Promise<VaultKey> {
  const { rows } = await sql<KeyRow & { was_closed: boolean }>`
    UPDATE vault_keys k SET open_until =
      CASE WHEN r.state IN ('planned', 'charging', 'settling') THEN 'infinity'::timestamptz
        ELSE now() + ${OPEN_AFTER_RUN}::interval END
    FROM billing_runs r, vault_keys o
    WHERE k.key_id = ${keyId} AND o.key_id = k.key_id
      AND r.namespace = ${run.namespace} AND r.period = ${run.period}
    RETURNING k.key_id, k.secret_hash, k.account, k.livemode, k.cap_basis, k.namespace, k.period,
      k.allowed_endpoints, k.expires_at, nullif(k.open_until, 'infinity') AS open_until, k.revoked_at,
      k.created_by, k.created_at, o.open_until <= now() AS was_closed`.execute(trx);
  const row = rows[0];
  if (row === undefined) throw new Error(`vault key ${keyId} went away while it was opened`);
  if (row.was_closed) await noteKeyChange(trx, { keyId, actor, action: 'opened' });
  return keyOf(row);
}

/** Ends the sends of the run's key; reads go on. False when there is none, or it is closed already. */
export async function closeRunKey(db: Db, run: RunRef, actor: string): Promise<boolean> {
  return db.transaction().execute(async (trx) => {
    const { rows } = await sql<{ key_id: string }>`
      UPDATE vault_keys SET open_until = now()
      WHERE namespace = ${run.namespace} AND period = ${run.period} AND open_until > now()
      RETURNING key_id`.execute(trx);
    const closed = rows[0];
    if (closed === undefined) return false;
    await noteKeyChange(trx, { keyId: closed.key_id, actor, action: 'closed' });
    return true;
  });
}
