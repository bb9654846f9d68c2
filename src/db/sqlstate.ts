import { NoResultError } from 'kysely';

export const SERIALIZATION_FAILURE = '40001';

/** SQLSTATEs we decide on, by name (postgresql.org/docs/current/errcodes-appendix.html). */
const RETRYABLE: Readonly<Record<string, string>> = {
  [SERIALIZATION_FAILURE]:
    'serialization_failure: another transaction won; the same statement may succeed now',
  '40P01': 'deadlock_detected: this transaction was the one given up',
  '53000': 'insufficient_resources',
  '53100': 'disk_full: nothing was written; goes on when there is room',
  '53200': 'out_of_memory',
  '53300': 'too_many_connections',
  '55P03': 'lock_not_available: lock_timeout ran out',
  '57014': 'query_canceled: statement_timeout ran out',
  '57P01': 'admin_shutdown: Postgres is stopping',
  '57P02': 'crash_shutdown',
  '57P03': 'cannot_connect_now: Postgres is starting',
  '25006': 'read_only_sql_transaction: a standby or a full disk; writes come back',
  '25P03': 'idle_in_transaction_session_timeout',
};

const OURS = [TypeError, RangeError, ReferenceError, SyntaxError, NoResultError];

/** True when the same statement may succeed later: lost connections and the states above. */
export function isRetryable(error: unknown): boolean {
  // A slip in our own code, or a number that does not fit: the next try brings the same.
  if (OURS.some((kind) => error instanceof kind)) return false;
  const code = sqlstateOf(error);
  // No SQLSTATE: the socket broke or the pool had no connection in time.
  if (code === null) return true;
  // Class 08 is "connection exception".
  return code in RETRYABLE || code.startsWith('08');
}

/** The SQLSTATE of a Postgres error, or null for anything else. */
export function sqlstateOf(error: unknown): string | null {
  if (!(error instanceof Error) || !('code' in error) || typeof error.code !== 'string')
    return null;
  // Its class starts with a digit, F, H, P or X; never with E, as Node's EPIPE and EPERM do.
  return /^[0-9FHPX][0-9A-Z]{4}$/.test(error.code) ? error.code : null;
}
