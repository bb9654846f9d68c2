import { sql } from 'kysely';
import type { Db } from './database.ts';
import { writeAuditEntry } from './audit-log.ts';

export interface StripeEnvironment {
  readonly account: string;
  readonly liveMode: boolean;
}

export interface TemporalPlace {
  readonly namespace: string;
  /** made with the namespace; null when the credentials may not ask for it */
  readonly namespaceId: string | null;
}

/** What a process is about to bill with. Without `temporal` that part is neither bound nor compared. */
export interface WantedEnvironment extends StripeEnvironment {
  readonly temporal?: TemporalPlace | null;
}

/** What a copy of a database does not share with it. */
export interface DatabasePlace {
  /** of the server's data directory; null when the role may not ask for it */
  readonly systemIdentifier: string | null;
  readonly oid: number;
  readonly name: string;
}

/** The one row of `environment`. Parts are null until a worker has bound them. */
export interface BoundEnvironment extends StripeEnvironment {
  readonly databaseId: string;
  readonly database: DatabasePlace | null;
  readonly temporal: TemporalPlace | null;
  readonly boundAt: Date | null;
}

export interface EnvironmentDifference {
  readonly what:
    | 'stripe account'
    | 'stripe mode'
    | 'database server'
    | 'database oid'
    | 'database name'
    | 'temporal namespace'
    | 'temporal namespace id';
  readonly bound: string;
  readonly here: string;
}

/** The database was bound to another account, mode, server or Temporal. Nothing may be sent from it. */
export class EnvironmentMismatch extends Error {
  override readonly name = 'EnvironmentMismatch';
  readonly differences: readonly EnvironmentDifference[];

  constructor(bound: BoundEnvironment, here: PresentEnvironment) {
    const differences = differencesOf(bound, here);
    super(explain(bound, here, differences));
    this.differences = differences;
  }
}

/** Where the database of this connection stands. Reads only. */
export async function readDatabasePlace(db: Db): Promise<DatabasePlace> {
  // Asked first: a call that is not allowed would fail the whole statement.
  const { rows } = await sql<{ oid: number; name: string; allowed: boolean }>`
    SELECT oid::bigint AS oid, datname AS name,
      has_function_privilege('pg_control_system()', 'execute') AS allowed
    FROM pg_database WHERE datname = current_database()`.execute(db);
  const row = rows[0];
  if (row === undefined) throw new Error('the database does not list itself');
  const { oid, name } = row;
  if (!row.allowed) return { systemIdentifier: null, oid, name };
  const control = await sql<{ id: string }>`
    SELECT system_identifier::text AS id FROM pg_control_system()`.execute(db);
  return { systemIdentifier: control.rows[0]?.id ?? null, oid, name };
}

/** What this database is bound to; null before its first worker. Reads only. */
export async function readEnvironment(
  db: Db,
  lock: 'locked' | 'unlocked' = 'unlocked',
): Promise<BoundEnvironment | null> {
  let query = db.selectFrom('environment').selectAll();
  if (lock === 'locked') query = query.forUpdate();
  const row = await query.executeTakeFirst();
  if (row === undefined) return null;
  return {
    account: row.stripe_account,
    liveMode: row.live_mode,
    databaseId: row.database_id,
    database:
      row.database_oid === null || row.database_name === null
        ? null
        : {
            systemIdentifier: row.system_identifier,
            oid: row.database_oid,
            name: row.database_name,
          },
    temporal:
      row.temporal_namespace === null
        ? null
        : { namespace: row.temporal_namespace, namespaceId: row.temporal_namespace_id },
    boundAt: row.bound_at,
  };
}

/**
 * Binds a new database to its account, mode, server and Temporal, fills in what an older version left
 * open, and refuses anything else from then on. Twice, or by two at once: bound once, then compared.
 */
export async function ensureEnvironment(db: Db, wanted: WantedEnvironment): Promise<void> {
  const here = await readDatabasePlace(db);
  await db.transaction().execute(async (trx) => {
    await trx
      .insertInto('environment')
      .values({ stripe_account: wanted.account, live_mode: wanted.liveMode })
      .onConflict((conflict) => conflict.column('singleton').doNothing())
      .execute();
    const bound = await readEnvironment(trx, 'locked');
    if (bound === null) throw new Error('the environment was not stored');
    refuseOther(bound, { ...wanted, database: here });
    const fillsTemporal = bound.temporal === null && wanted.temporal != null;
    if (bound.database !== null && !fillsTemporal) return;
    await writeBinding(trx, { ...wanted, temporal: wanted.temporal ?? bound.temporal }, here);
    await writeAuditEntry(trx, {
      actor: 'setup',
      action: 'environment.bound',
      details: auditDetails({ ...wanted, database: here }),
    });
  });
}

/**
 * Throws {@link EnvironmentMismatch} when this is not what the database is bound to; binds nothing. One
 * cheap read for a worker that is up already: the database behind its address may have been exchanged.
 */
export async function requireEnvironment(db: Db, wanted: WantedEnvironment): Promise<void> {
  const bound = await readEnvironment(db);
  if (bound === null) return;
  refuseOther(bound, { ...wanted, database: await readDatabasePlace(db) });
}

/** Throws when the database belongs to another Stripe account or mode, wherever it stands. Binds nothing. */
export async function requireAccount(db: Db, wanted: StripeEnvironment): Promise<void> {
  const bound = await readEnvironment(db);
  if (bound !== null) refuseOther(bound, { ...wanted, database: null });
}

export type PresentEnvironment = WantedEnvironment & { readonly database: DatabasePlace | null };

/** Where the present differs from what was bound; parts that either side does not know are left out. */
export function differencesOf(
  bound: BoundEnvironment,
  here: PresentEnvironment,
): readonly EnvironmentDifference[] {
  const found: EnvironmentDifference[] = [];
  const compare = (
    what: EnvironmentDifference['what'],
    was: string | number | null | undefined,
    is: string | number | null | undefined,
  ): void => {
    if (was == null || is == null || was === is) return;
    found.push({ what, bound: String(was), here: String(is) });
  };
  compare('stripe account', bound.account, here.account);
  compare('stripe mode', modeOf(bound), modeOf(here));
  compare('database server', bound.database?.systemIdentifier, here.database?.systemIdentifier);
  compare('database oid', bound.database?.oid, here.database?.oid);
  compare('database name', bound.database?.name, here.database?.name);
  compare('temporal namespace', bound.temporal?.namespace, here.temporal?.namespace);
  compare('temporal namespace id', bound.temporal?.namespaceId, here.temporal?.namespaceId);
  return found;
}

/** Writes the place; in the caller's transaction, which holds the row. */
export async function writeBinding(
  trx: Db,
  wanted: WantedEnvironment,
  here: DatabasePlace,
): Promise<void> {
  await trx
    .updateTable('environment')
    .set({
      stripe_account: wanted.account,
      live_mode: wanted.liveMode,
      system_identifier: here.systemIdentifier,
      database_oid: here.oid,
      database_name: here.name,
      temporal_namespace: wanted.temporal?.namespace ?? null,
      temporal_namespace_id: wanted.temporal?.namespaceId ?? null,
      bound_at: sql`now()`,
    })
    .execute();
}

/** An environment as the audit log keeps it, flat. */
export function auditDetails(
  environment: PresentEnvironment,
  prefix = '',
): Record<string, string | number | boolean | null> {
  const { database, temporal } = environment;
  return {
    [`${prefix}account`]: environment.account,
    [`${prefix}liveMode`]: environment.liveMode,
    [`${prefix}systemIdentifier`]: database?.systemIdentifier ?? null,
    [`${prefix}databaseOid`]: database?.oid ?? null,
    [`${prefix}databaseName`]: database?.name ?? null,
    [`${prefix}temporalNamespace`]: temporal?.namespace ?? null,
    [`${prefix}temporalNamespaceId`]: temporal?.namespaceId ?? null,
  };
}

function refuseOther(bound: BoundEnvironment, here: PresentEnvironment): void {
  if (differencesOf(bound, here).length > 0) throw new EnvironmentMismatch(bound, here);
}

function modeOf({ liveMode }: StripeEnvironment): 'live' | 'test' {
  return liveMode ? 'live' : 'test';
}

function explain(
  bound: BoundEnvironment,
  present: PresentEnvironment,
  differences: readonly EnvironmentDifference[],
): string {
  const list = differences
    .map(({ what, bound: was, here }) => `${what}: bound to ${was}, here it is ${here}`)
    .join('; ');
  if (differences.some(({ what }) => what.startsWith('stripe'))) {
    return (
      `this database belongs to Stripe account ${bound.account} in ${modeOf(bound)} mode, ` +
      `but STRIPE_API_KEY is for ${present.account} in ${modeOf(present)} mode. ` +
      'Use the key of that account, or a database of its own for this one (DATABASE_URL or CHARGEONCE_HOME)'
    );
  }
  const temporal = differences.every(({ what }) => what.startsWith('temporal'));
  const means = temporal
    ? 'It was billed through another Temporal, whose workers may still bill from it or from a copy. '
    : 'It looks like a copy or a restored backup: it may have forgotten charges, and two copies that bill charge customers twice. ';
  return (
    `this database is bound to another place (${list}). ${means}` +
    'Nothing is sent. Make sure that no other copy bills, then take it over: chargeonce environment adopt --reason TEXT'
  );
}
