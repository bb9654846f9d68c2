import { sql } from 'kysely';
import type { Db } from './database.ts';
import type { CapBasis } from './schema.ts';

/** A key as it is stored: its public part, and the hash of the whole. */
export interface VaultKey {
  readonly keyId: string;
  /** SHA-256 of the whole key */
  readonly secretHash: Buffer;
  readonly account: string;
  readonly liveMode: boolean;
  readonly capBasis: CapBasis;
  /** of a run's own key both; of any other at most the period */
  readonly namespace: string | null;
  readonly period: string | null;
  readonly allowedEndpoints: readonly string[];
  readonly expiresAt: Date;
  /** sends pass only until then; null: no end is set */
  readonly openUntil: Date | null;
  readonly revokedAt: Date | null;
  readonly createdBy: string;
  readonly createdAt: Date;
}

/** A cap per currency; `expectedMinor` where a plan says what is expected. */
export interface CapOrder {
  readonly currency: string;
  readonly capMinor: number;
  readonly expectedMinor: number | null;
}

export interface KeyOrder {
  readonly keyId: string;
  readonly secretHash: Buffer;
  readonly account: string;
  readonly liveMode: boolean;
  readonly capBasis: CapBasis;
  readonly namespace: string | null;
  readonly period: string | null;
  readonly allowedEndpoints: readonly string[];
  readonly expiresAt: Date;
  readonly caps: readonly CapOrder[];
  readonly actor: string;
}

export interface KeyRow {
  key_id: string;
  secret_hash: Buffer;
  account: string;
  livemode: boolean;
  cap_basis: CapBasis;
  namespace: string | null;
  period: string | null;
  allowed_endpoints: string[];
  expires_at: Date;
  open_until: Date | null;
  revoked_at: Date | null;
  created_by: string;
  created_at: Date;
}

/** Every column of a key; 'infinity' would arrive as a number. */
export const KEY_COLUMNS = sql`key_id, secret_hash, account, livemode, cap_basis, namespace, period, allowed_endpoints,
  expires_at, nullif(open_until, 'infinity') AS open_until, revoked_at, created_by, created_at`;

/** A row as the rest of the code knows it. */
export function keyOf(row: KeyRow): VaultKey {
  return {
    keyId: row.key_id,
    secretHash: row.secret_hash,
    account: row.account,
    liveMode: row.livemode,
    capBasis: row.cap_basis,
    namespace: row.namespace,
    period: row.period,
    allowedEndpoints: row.allowed_endpoints,
    expiresAt: row.expires_at,
    openUntil: row.open_until,
    revokedAt: row.revoked_at,
    createdBy: row.created_by,
    createdAt: row.created_at,
  };
}

/** What may be done to a key. */
export type KeyAction =
  | 'created'
  | 'cap_raised'
  | 'expiry_extended'
  | 'secret_rotated'
  | 'endpoints_changed'
  | 'opened'
  | 'closed'
  | 'revoked';

/** Inserts a key's row. True when it is new; false when the conflict clause passed over it. */
export async function storeKey(trx: Db, order: KeyOrder, onConflict = sql``): Promise<boolean> {
  const { rows } = await sql`
    INSERT INTO vault_keys (key_id, secret_hash, account, livemode, cap_basis, namespace, period,
      allowed_endpoints, expires_at, created_by)
    VALUES (${order.keyId}, ${order.secretHash}, ${order.account}, ${order.liveMode}, ${order.capBasis},
      ${order.namespace}, ${order.period}, ${order.allowedEndpoints}, ${order.expiresAt}, ${order.actor})
    ${onConflict} RETURNING key_id`.execute(trx);
  return rows.length > 0;
}

/** Inserts the caps of a new key. */
export async function storeCaps(trx: Db, keyId: string, caps: readonly CapOrder[]): Promise<void> {
  for (const { currency, capMinor, expectedMinor } of caps) {
    await sql`
      INSERT INTO vault_caps (key_id, currency, cap_minor, expected_minor)
      VALUES (${keyId}, ${currency}, ${capMinor}, ${expectedMinor})`.execute(trx);
  }
}

/** Appends what was done to a key, in the transaction that does it. */
export async function noteKeyChange(
  trx: Db,
  change: {
    readonly keyId: string;
    readonly actor: string;
    readonly action: KeyAction;
    readonly reason?: string;
    readonly details?: object;
  },
): Promise<void> {
  const { keyId, actor, action, reason = null, details = {} } = change;
  await sql`
    INSERT INTO vault_key_changes (key_id, actor, action, reason, details)
    VALUES (${keyId}, ${actor}, ${action}, ${reason}, ${JSON.stringify(details)}::jsonb)`.execute(
    trx,
  );
}
