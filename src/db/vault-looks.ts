import { sql } from 'kysely';
import type { Db } from './database.ts';
import type { Effect } from './vault-ledger.ts';

/** A reservation whose end is open, and by what it is known at Stripe. */
export interface OpenReservation {
  readonly reservationId: number;
  readonly keyId: string;
  readonly amountMinor: number;
  readonly currency: string;
  /** null until a reply or a look has named it */
  readonly objectId: string | null;
  /** path of its create: which kind of object it made */
  readonly createPath: string;
  readonly stripeCustomer: string | null;
  /** seconds since 1970 of its first and its last send, by the database clock */
  readonly reservedAtSeconds: number;
  readonly lastForwardAtSeconds: number;
  /** requests about it that were out when it was taken up: what a look may speak for */
  readonly forwards: number;
}

export interface OpenQuery {
  readonly account: string;
  readonly liveMode: boolean;
  readonly limit: number;
  /** null: those that are due. Else every held one, in pages after this id. */
  readonly everyAfter: number | null;
}

/** Longer than a look takes with all its pages; whoever dies in it leaves the reservation to the next sweep. */
const LOOK_LEASE = '2 minutes';

/**
 * Takes up held reservations of this account and locks others out of them for the lease. Two at once get different ones;
 * of an order for every one they may get the same, which does no harm.
 */
export async function takeOpenReservations(
  db: Db,
  { account, liveMode, limit, everyAfter }: OpenQuery,
): Promise<readonly OpenReservation[]> {
  const due =
    everyAfter === null
      ? sql`r.next_look_at <= now() ORDER BY r.next_look_at`
      : sql`r.reservation_id > ${everyAfter} ORDER BY r.reservation_id`;
  const { rows } = await sql<OpenReservation>`
    WITH due AS MATERIALIZED (
      SELECT r.reservation_id FROM vault_reservations r JOIN vault_keys k USING (key_id)
      WHERE r.state = 'held' AND k.account = ${account} AND k.livemode = ${liveMode} AND ${due}
      LIMIT ${limit} FOR UPDATE OF r SKIP LOCKED)
    UPDATE vault_reservations r SET next_look_at = now() + ${LOOK_LEASE}::interval
    FROM due WHERE r.reservation_id = due.reservation_id
    RETURNING r.reservation_id AS "reservationId", r.key_id AS "keyId", r.amount_minor AS "amountMinor",
      r.currency, r.object_id AS "objectId", r.stripe_customer AS "stripeCustomer", r.forwards,
      extract(epoch FROM r.reserved_at)::bigint AS "reservedAtSeconds",
      extract(epoch FROM r.last_forward_at)::bigint AS "lastForwardAtSeconds",
      (SELECT q.path FROM vault_requests q
        WHERE q.idempotency_key = r.create_key AND q.reservation_id = r.reservation_id
        ORDER BY q.at LIMIT 1) AS "createPath"`.execute(db);
  return rows.toSorted((a, b) => a.reservationId - b.reservationId);
}

/** Whether any key has a reservation for this object. */
export async function isAccountedFor(db: Db, objectId: string): Promise<boolean> {
  const { rows } = await sql`
    SELECT FROM vault_reservations WHERE object_id = ${objectId} LIMIT 1`.execute(db);
  return rows.length > 0;
}

/** What a look saw. `absent`: nothing has taken effect, as far as it shows. `released`: nothing can follow any more. */
export interface Sight {
  readonly to: 'spent' | 'released' | 'absent' | 'held';
  /** Stripe's word for it, or why nothing was seen */
  readonly reason: string;
}

/**
 * Writes down what a look saw, and moves the reservation where that leads. Absence gives the sum back only when two
 * looks a quiet time apart, and after the last send, agree. Twice, or by two at once: spent stays spent.
 */
export async function noteLook(
  db: Db,
  look: {
    readonly reservationId: number;
    readonly forwards: number;
    readonly sight: Sight;
    readonly quietMs: number;
  },
): Promise<Effect> {
  const { reservationId, forwards, sight, quietMs } = look;
  const { rows } = await sql<{ effect: Effect }>`
    SELECT effect FROM vault_look(${reservationId}, ${forwards}, ${sight.to}, ${sight.reason},
      ${quietMs}::double precision * interval '1 millisecond')`.execute(db);
  return rows[0]?.effect ?? 'held';
}

/**
 * Closes the keys of runs that are over and were not closed, such as when the vault was away then. The ids of those that
 * this call closed; two at once close each one once.
 */
export async function closeKeysOfEndedRuns(db: Db, actor: string): Promise<readonly string[]> {
  const { rows } = await sql<{ key_id: string }>`
    WITH closed AS (
      UPDATE vault_keys k SET open_until = now()
      FROM billing_runs r
      WHERE r.namespace = k.namespace AND r.period = k.period AND r.state IN ('completed', 'stopped')
        AND k.open_until = 'infinity'
      RETURNING k.key_id
    )
    INSERT INTO vault_key_changes (key_id, actor, action, reason)
    SELECT key_id, ${actor}, 'closed', 'the run is over' FROM closed RETURNING key_id`.execute(db);
  return rows.map(({ key_id }) => key_id);
}
