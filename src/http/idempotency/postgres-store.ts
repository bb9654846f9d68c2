import type {
  Claim,
  ClaimAnswer,
  Hold,
  IdempotencyStore,
  Interrupted,
  RecordId,
  StoredResponse,
} from './store.ts';

/** What the store needs of a connection pool: `pg.Pool` as it is, or anything that runs one statement. */
export interface Queryable {
  // oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- as pg.Pool has it: the caller knows its columns
  query<R extends object>(text: string, values: unknown[]): Promise<{ rows: R[] }>;
}

/** Another transaction is at the row and keeps it longer than an answer may take. */
const LOCK_NOT_AVAILABLE = '55P03';

interface Row {
  readonly answer: string;
  readonly fence: string | number | null;
  readonly state: 'COMPLETED' | 'FAILED';
  readonly status: number;
  readonly headers: readonly (readonly [string, string])[];
  readonly body: Buffer | null;
}

const CLAIM = 'SELECT * FROM idempotency_claim($1, $2, $3, $4, $5, $6, $7)';
const LOOK = `
  SELECT CASE WHEN fingerprint <> $4 THEN 'mismatch'
      WHEN state <> 'IN_PROGRESS' THEN 'stored'
      WHEN lease_until > now() THEN 'inFlight' ELSE 'interrupted' END AS answer,
    fence, state, status, headers, body
  FROM idempotency_records
  WHERE principal = $1 AND endpoint = $2 AND idempotency_key = $3 AND (expires_at IS NULL OR expires_at > now())`;
const RENEW = `
  UPDATE idempotency_records AS r SET lease_until = now() + $6::bigint * interval '1 millisecond'
  FROM unnest($1::text[], $2::text[], $3::text[], $4::uuid[], $5::bigint[])
    AS held (principal, endpoint, idempotency_key, holder, fence)
  WHERE r.principal = held.principal AND r.endpoint = held.endpoint AND r.idempotency_key = held.idempotency_key
    AND r.holder = held.holder AND r.fence = held.fence AND r.state = 'IN_PROGRESS'
  RETURNING r.holder`;
const COMPLETE = `
  UPDATE idempotency_records SET state = $6, status = $7, headers = $8, body = $9, lease_until = NULL,
    completed_at = now(), expires_at = now() + $10::bigint * interval '1 millisecond'
  WHERE principal = $1 AND endpoint = $2 AND idempotency_key = $3 AND holder = $4 AND fence = $5
    AND state = 'IN_PROGRESS'
  RETURNING 1 AS stored`;
const COMPLETED_BY_ME = `
  SELECT 1 AS stored FROM idempotency_records
  WHERE principal = $1 AND endpoint = $2 AND idempotency_key = $3 AND holder = $4 AND fence = $5
    AND state <> 'IN_PROGRESS'`;
/** After a takeover the key stays, free to be taken over again: the earlier holder may have got somewhere. */
const ABANDON = `
  WITH gone AS (
    DELETE FROM idempotency_records
    WHERE principal = $1 AND endpoint = $2 AND idempotency_key = $3 AND holder = $4 AND state = 'IN_PROGRESS'
      AND NOT taken_over
  )
  UPDATE idempotency_records SET lease_until = now()
  WHERE principal = $1 AND endpoint = $2 AND idempotency_key = $3 AND holder = $4 AND state = 'IN_PROGRESS'
    AND taken_over`;
const PURGE = `
  WITH old AS MATERIALIZED (
    SELECT ctid FROM idempotency_records
    WHERE state <> 'IN_PROGRESS' AND expires_at <= now()
    ORDER BY expires_at LIMIT $1 FOR UPDATE SKIP LOCKED
  )
  DELETE FROM idempotency_records WHERE ctid = ANY (ARRAY (SELECT ctid FROM old)) RETURNING 1 AS gone`;
const INTERRUPTED = `
  SELECT principal, endpoint, idempotency_key AS key, lease_until AS since FROM idempotency_records
  WHERE state = 'IN_PROGRESS' AND lease_until <= now() ORDER BY lease_until LIMIT $1`;
/** A holder that is back after all, or one that took over, has a lease: then nothing is resolved. */
const RESOLVE_FREE = `
  DELETE FROM idempotency_records
  WHERE principal = $1 AND endpoint = $2 AND idempotency_key = $3 AND state = 'IN_PROGRESS' AND lease_until <= now()
  RETURNING 1 AS resolved`;
const RESOLVE_AS = `
  UPDATE idempotency_records SET state = $4, status = $5, headers = $6, body = $7, lease_until = NULL,
    fence = fence + 1, completed_at = now(), expires_at = now() + $8::bigint * interval '1 millisecond'
  WHERE principal = $1 AND endpoint = $2 AND idempotency_key = $3 AND state = 'IN_PROGRESS' AND lease_until <= now()
  RETURNING 1 AS resolved`;

/**
 * Keys in PostgreSQL, in the table of `migrationSql()`. Two commits per request: its claim and its answer. Any number
 * of processes share one table.
 */
export class PostgresIdempotencyStore implements IdempotencyStore {
  readonly #database: Queryable;

  constructor(database: Queryable) {
    this.#database = database;
  }

  async claim(claim: Claim): Promise<ClaimAnswer> {
    const { fingerprint, holder, leaseMs, takeover } = claim;
    const values = [...idOf(claim), fingerprint, holder, leaseMs, takeover === 'rerun'];
    try {
      const [row] = await this.#rows<Row>(CLAIM, values);
      return answerOf(row);
    } catch (error) {
      if (codeOf(error) === LOCK_NOT_AVAILABLE) return { kind: 'inFlight' };
      throw error;
    }
  }

  async look(id: RecordId, fingerprint: Buffer) {
    const [row] = await this.#rows<Row>(LOOK, [...idOf(id), fingerprint]);
    if (row === undefined) return null;
    const answer = answerOf(row);
    if (answer.kind === 'claimed') throw new TypeError('a look took the key');
    return answer;
  }

  async renew(holds: readonly Hold[], leaseMs: number): Promise<readonly string[]> {
    if (holds.length === 0) return [];
    const rows = await this.#rows<{ readonly holder: string }>(RENEW, [
      holds.map((hold) => hold.principal),
      holds.map((hold) => hold.endpoint),
      holds.map((hold) => hold.key),
      holds.map((hold) => hold.holder),
      holds.map((hold) => hold.fence),
      leaseMs,
    ]);
    const kept = new Set(rows.map((row) => row.holder));
    return holds.map((hold) => hold.holder).filter((holder) => !kept.has(holder));
  }

  async complete(
    hold: Hold,
    response: StoredResponse,
    retentionMs: number,
  ): Promise<'stored' | 'lost'> {
    const mine = [...idOf(hold), hold.holder, hold.fence];
    const stored = await this.#rows(COMPLETE, [...mine, ...columnsOf(response), retentionMs]);
    if (stored.length > 0) return 'stored';
    // Said before, and the answer was lost.
    const before = await this.#rows(COMPLETED_BY_ME, mine);
    return before.length > 0 ? 'stored' : 'lost';
  }

  async abandon(hold: Omit<Hold, 'fence'>): Promise<void> {
    await this.#rows(ABANDON, [...idOf(hold), hold.holder]);
  }

  async purge(limit: number): Promise<number> {
    return (await this.#rows(PURGE, [limit])).length;
  }

  async interrupted(limit: number): Promise<readonly Interrupted[]> {
    return this.#rows<Interrupted>(INTERRUPTED, [limit]);
  }

  async resolve(
    id: RecordId,
    response: StoredResponse | null,
    retentionMs: number,
  ): Promise<'resolved' | 'notInterrupted'> {
    const rows =
      response === null
        ? await this.#rows(RESOLVE_FREE, idOf(id))
        : await this.#rows(RESOLVE_AS, [...idOf(id), ...columnsOf(response), retentionMs]);
    return rows.length > 0 ? 'resolved' : 'notInterrupted';
  }

  async #rows<T extends object>(text: string, values: unknown[]): Promise<readonly T[]> {
    const { rows } = await this.#database.query<T>(text, values);
    return rows;
  }
}

function idOf({ principal, endpoint, key }: RecordId): unknown[] {
  return [principal, endpoint, key];
}

function columnsOf({ state, status, headers, body }: StoredResponse): unknown[] {
  return [state, status, JSON.stringify(headers), body];
}

function answerOf(row: Row | undefined): ClaimAnswer {
  if (row === undefined) throw new TypeError('idempotency_claim answered nothing');
  switch (row.answer) {
    case 'claimed':
    case 'takenOver':
      return {
        kind: 'claimed',
        fence: Number(row.fence),
        takenOver: row.answer === 'takenOver',
      };
    case 'stored': {
      const { state, status, headers, body } = row;
      return { kind: 'stored', response: { state, status, headers, body } };
    }
    case 'inFlight':
    case 'interrupted':
    case 'mismatch':
      return { kind: row.answer };
    default:
      throw new TypeError(`idempotency_claim answered ${row.answer}`);
  }
}

function codeOf(error: unknown): unknown {
  return typeof error === 'object' && error !== null && 'code' in error ? error.code : undefined;
}
