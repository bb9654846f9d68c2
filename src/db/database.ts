import { Kysely, PostgresDialect, type Transaction } from 'kysely';
import pg from 'pg';
import type { DB } from './schema.ts';

/** Either a pool or a transaction: every function of this folder runs in both. */
export type Db = Kysely<DB> | Transaction<DB>;

/** Postgres type ids (pg_type.oid) that arrive as text unless parsed. */
const INT8_OID = 20;

export interface DatabaseOptions {
  readonly url: string;
  /** what shows in pg_stat_activity */
  readonly applicationName: string;
  /** connections of this process */
  readonly poolSize?: number;
  /**
   * keeps every statement prepared on its connection: for a process with a handful of statements that never change. Not
   * through a pooler that gives each transaction another connection.
   */
  readonly prepare?: boolean;
  /** called when an idle connection breaks, for the log; the pool replaces it by itself */
  readonly onError: (error: Error) => void;
}

export interface Database {
  readonly db: Kysely<DB>;
  close(): Promise<void>;
}

/** Longest any of our statements may run; claim and record take milliseconds. */
const STATEMENT_TIMEOUT_MS = 5_000;
/** Longest wait for a row or table lock before the caller tries again. */
const LOCK_TIMEOUT_MS = 2_000;
/** A transaction that stops talking holds its locks no longer than this. */
const IDLE_IN_TRANSACTION_TIMEOUT_MS = 10_000;
/** Longest wait for a connection, new or from the pool. */
const CONNECT_TIMEOUT_MS = 5_000;

/**
 * A pool with time-outs on everything that can hang. int8 is parsed to a number and refused beyond
 * 2^53, so that money never loses a digit in silence.
 */
export function openDatabase(options: DatabaseOptions): Database {
  const pool = new pg.Pool({
    connectionString: options.url,
    application_name: options.applicationName,
    max: options.poolSize ?? 10,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    statement_timeout: STATEMENT_TIMEOUT_MS,
    lock_timeout: LOCK_TIMEOUT_MS,
    idle_in_transaction_session_timeout: IDLE_IN_TRANSACTION_TIMEOUT_MS,
    query_timeout: STATEMENT_TIMEOUT_MS + 5_000,
    keepAlive: true,
    types: { getTypeParser: typeParser },
  });
  // Without a listener a stopping Postgres would end this process through an unhandled 'error'.
  pool.on('error', options.onError);
  // The pool listens on idle connections only; one that breaks in use rejects its query and emits as well.
  pool.on('connect', (client) => client.on('error', options.onError));
  if (options.prepare === true) pool.on('connect', prepareAll);
  const db = new Kysely<DB>({ dialect: new PostgresDialect({ pool }) });
  return { db, close: () => db.destroy() };
}

/** Names every statement with parameters by its text, so that the connection parses and plans it once. */
function prepareAll(client: pg.PoolClient): void {
  const query = client.query.bind(client);
  const names = new Map<string, string>();
  const prepared = (text: unknown, values: unknown, ...rest: readonly unknown[]): unknown => {
    if (typeof text !== 'string' || !Array.isArray(values) || values.length === 0)
      return Reflect.apply(query, client, [text, values, ...rest]);
    const name = names.get(text) ?? `s${names.size + 1}`;
    names.set(text, name);
    return Reflect.apply(query, client, [{ name, text, values }, ...rest]);
  };
  Object.defineProperty(client, 'query', { value: prepared });
}

/** pg's own parsers, but for int8. */
const typeParser: typeof pg.types.getTypeParser = (oid: number, format?: 'text' | 'binary') =>
  // oxlint-disable-next-line typescript/no-unsafe-enum-assignment -- pg types the oid as an enum of the ones it knows
  oid === INT8_OID ? parseInt8 : pg.types.getTypeParser(oid, format);

/** Postgres int8 text → number; throws beyond the safe range instead of rounding. */
export function parseInt8(text: string): number {
  const value = Number(text);
  if (!Number.isSafeInteger(value)) {
    throw new RangeError(`int8 ${text} does not fit a safe integer`);
  }
  return value;
}
