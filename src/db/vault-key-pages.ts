import { sql } from 'kysely';
import type { Db } from './database.ts';
import { KEY_COLUMNS, keyOf, type KeyRow, type VaultKey } from './vault-key-rows.ts';

/** A key and when it was made, as a cursor needs it: in microseconds, which a Date does not have. */
export interface PagedKey {
  readonly key: VaultKey;
  readonly createdMicros: number;
}

/** Keys made before the named one, the newest first; null begins with the newest of all. Reads only. */
export async function pageVaultKeys(
  db: Db,
  page: {
    readonly after: { readonly createdMicros: number; readonly keyId: string } | null;
    readonly limit: number;
  },
): Promise<readonly PagedKey[]> {
  const { after, limit } = page;
  const before =
    after === null
      ? sql`true`
      : sql`(created_at, key_id) < (timestamptz 'epoch' + ${after.createdMicros}::bigint * interval '1 microsecond', ${after.keyId})`;
  const { rows } = await sql<KeyRow & { created_micros: number }>`
    SELECT ${KEY_COLUMNS}, (extract(epoch FROM created_at) * 1000000)::bigint AS created_micros
    FROM vault_keys WHERE ${before} ORDER BY created_at DESC, key_id DESC LIMIT ${limit}`.execute(
    db,
  );
  return rows.map((row) => ({ key: keyOf(row), createdMicros: row.created_micros }));
}
