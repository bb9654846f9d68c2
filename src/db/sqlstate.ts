import { NoResultError } from 'kysely';

export const SERIALIZATION_FAILURE = '40001';

/** Classes of SQLSTATE after which the same statement may succeed (postgresql.org/docs/current/errcodes-appendix.html). */
const RETRYABLE_CLASSES: Readonly<Record<string, string>> = {
  '08': 'connection exception',
  '40': 'transaction rollback: serialization failure, deadlock, completion unknown',
  '53': 'insufficient resources: disk full, out of memory, too many connections',
  '57': 'operator intervention: statement time-out, shutdown, starting up',
  '58': 'system error outside Postgres: I/O',
};

/** Single states of other classes. */
const RETRYABLE: Readonly<Record<string, string>> = {
  '55P03': 'lock_not_available: lock_timeout ran out',
  '25006': 'read_only_sql_transaction: a standby or a full disk; writes come back',
  '25P03': 'idle_in_transaction_session_timeout',
  '25P04': 'transaction_timeout',
};

const OURS = [TypeError, RangeError, ReferenceError, SyntaxError, NoResultError];

/** True when the same statement may succeed later: lost connections and the classes above. */
export function isRetryable(error: unknown): boolean {
  // A slip in our own code, or a number that does not fit: the next try brings the same.
  if (OURS.some((kind) => error instanceof kind)) return false;
  const code = sqlstateOf(error);
  // No SQLSTATE: the socket broke or the pool had no connection in time.
  if (code === null) return true;
  return code in RETRYABLE || code.slice(0, 2) in RETRYABLE_CLASSES;
}

/** What pg says, without a code, of a connection that broke or was not to be had in time (pg 8, client.js and pool). */
const CONNECTION_LOST =
  /^(?:Connection terminated|timeout exceeded when trying to connect|Query read timeout)/;
const SOCKET_LOST = new Set(['ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'ETIMEDOUT']);

/** True when the statement failed because the database was not there, or did not answer in time. */
export function isDatabaseAway(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  if (sqlstateOf(error) !== null) return isRetryable(error);
  if ('code' in error && SOCKET_LOST.has(String(error.code))) return true;
  return CONNECTION_LOST.test(error.message);
}

/** The SQLSTATE of a Postgres error, or null for anything else. */
export function sqlstateOf(error: unknown): string | null {
  if (!(error instanceof Error) || !('code' in error) || typeof error.code !== 'string')
    return null;
  // Its class starts with a digit, F, H, P or X; never with E, as Node's EPIPE and EPERM do.
  return /^[0-9FHPX][0-9A-Z]{4}$/.test(error.code) ? error.code : null;
}

/** The name of the constraint that refused, our triggers' own included; null for any other error. */
export function constraintOf(error: unknown): string | null {
  if (!(error instanceof Error) || !('constraint' in error)) return null;
  return typeof error.constraint === 'string' ? error.constraint : null;
}
