import { sql } from 'kysely';
import { writeAuditEntry } from './audit-log.ts';
import type { Db } from './database.ts';
import type { ApiRole } from './schema.ts';

export type { ApiRole };

/** A token as it may be shown; its secret is nowhere. */
export interface StoredToken {
  readonly tokenId: string;
  readonly name: string;
  readonly role: ApiRole;
  readonly createdAt: Date;
  readonly createdBy: string;
  readonly expiresAt: Date;
  readonly revokedAt: Date | null;
  readonly lastUsedAt: Date | null;
}

export interface TokenOrder {
  readonly tokenId: string;
  readonly secretHash: Buffer;
  readonly name: string;
  readonly role: ApiRole;
  readonly lifeDays: number;
  readonly operator: string;
}

const SHOWN = [
  'token_id as tokenId',
  'name',
  'role',
  'created_at as createdAt',
  'created_by as createdBy',
  'expires_at as expiresAt',
  'revoked_at as revokedAt',
  'last_used_at as lastUsedAt',
] as const;

/** Stores a new token and logs who made it. Twice with one id: the primary key refuses the second. */
export async function insertApiToken(db: Db, order: TokenOrder): Promise<StoredToken> {
  const { tokenId, secretHash, name, role, lifeDays, operator } = order;
  return db.transaction().execute(async (trx) => {
    const stored = await trx
      .insertInto('api_tokens')
      .values({
        token_id: tokenId,
        name,
        role,
        secret_hash: secretHash,
        created_by: operator,
        expires_at: sql`now() + ${lifeDays} * interval '1 day'`,
      })
      .returning(SHOWN)
      .executeTakeFirstOrThrow();
    await writeAuditEntry(trx, {
      actor: operator,
      action: 'token.created',
      details: { tokenId, name, role, expiresAt: stored.expiresAt.toISOString() },
    });
    return stored;
  });
}

/** What a request needs to know of its token. */
export interface TokenCheck {
  readonly name: string;
  readonly role: ApiRole;
  readonly secretHash: Buffer;
  /** neither expired nor revoked, by the database's clock */
  readonly live: boolean;
  /** its last use was noted more than a minute ago */
  readonly useIsOld: boolean;
}

/** The token of this id by its primary key; null when there is none. Reads only. */
export async function findApiToken(db: Db, tokenId: string): Promise<TokenCheck | null> {
  const { rows } = await sql<TokenCheck>`
    SELECT name, role, secret_hash AS "secretHash", revoked_at IS NULL AND expires_at > now() AS live,
      last_used_at IS NULL OR last_used_at < now() - interval '1 minute' AS "useIsOld"
    FROM api_tokens WHERE token_id = ${tokenId}`.execute(db);
  return rows[0] ?? null;
}

/** Notes that a token was used, at most once a minute. Twice: the second changes nothing. */
export async function noteTokenUse(db: Db, tokenId: string): Promise<void> {
  await sql`
    UPDATE api_tokens SET last_used_at = now() WHERE token_id = ${tokenId}
      AND (last_used_at IS NULL OR last_used_at < now() - interval '1 minute')`.execute(db);
}

/** Tokens that somebody reads in a list; older ones are left out. */
const MAX_LISTED = 1_000;

/** Every token, the newest first. Reads only. */
export async function listApiTokens(db: Db): Promise<readonly StoredToken[]> {
  return db
    .selectFrom('api_tokens')
    .select(SHOWN)
    .orderBy('created_at', 'desc')
    .orderBy('token_id')
    .limit(MAX_LISTED)
    .execute();
}

/** Ends a token for good, with its next request. Twice: the first time stays. */
export async function revokeApiToken(
  db: Db,
  order: { readonly tokenId: string; readonly operator: string; readonly reason: string },
): Promise<'revoked' | 'revokedBefore' | 'unknown'> {
  const { tokenId, operator, reason } = order;
  return db.transaction().execute(async (trx) => {
    const revoked = await trx
      .updateTable('api_tokens')
      .set({ revoked_at: sql`now()` })
      .where('token_id', '=', tokenId)
      .where('revoked_at', 'is', null)
      .returning(['name', 'role'])
      .executeTakeFirst();
    if (revoked === undefined) {
      const known = await findApiToken(trx, tokenId);
      return known === null ? 'unknown' : 'revokedBefore';
    }
    const { name, role } = revoked;
    const details = { tokenId, name, role };
    await writeAuditEntry(trx, { actor: operator, action: 'token.revoked', reason, details });
    return 'revoked';
  });
}
