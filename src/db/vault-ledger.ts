import { sql } from 'kysely';
import type { Db } from './database.ts';

/** What a request wants of the cap. `plain` moves no money; a refund is plain, it gives nothing back. */
export type SpendKind = 'read' | 'plain' | 'create' | 'confirm' | 'cancel' | 'capture';

/** A request that has passed every check that needs no database. */
export interface BeginOrder {
  /** our own id of this request, a UUID */
  readonly requestId: string;
  readonly keyId: string;
  /** what this vault's own Stripe key bills */
  readonly account: string;
  readonly liveMode: boolean;
  readonly kind: SpendKind;
  readonly method: string;
  readonly path: string;
  /** null only for reads and deletes */
  readonly idempotencyKey: string | null;
  /** X-Attempt-Id of the client */
  readonly attemptId: string | null;
  /** SHA-256 of method, path and body, length-framed */
  readonly requestHash: Buffer;
  /** of a create; of a capture when it names one; minor units */
  readonly amountMinor: number | null;
  readonly currency: string | null;
  /** the PaymentIntent of a confirm, capture or cancel, from the path */
  readonly objectId: string | null;
  readonly stripeCustomer: string | null;
  /** SHA-256 of the create's metadata; of no metadata too */
  readonly marks: Buffer;
  /** from our own metadata names, null where the client uses others */
  readonly namespace: string | null;
  readonly period: string | null;
  readonly customerId: string | null;
}

/** Codes of the refusals that the database decides; each has its HTTP status in src/vault/refusal.ts. */
export type LedgerRefusal =
  | 'vault_key_unknown'
  | 'vault_key_of_another_account'
  | 'vault_key_revoked'
  | 'vault_key_expired'
  | 'vault_key_closed'
  | 'period_mismatch'
  | 'idempotency_key_reused'
  | 'idempotency_key_too_old'
  | 'unknown_payment_intent'
  | 'capture_above_reservation'
  | 'currency_not_capped'
  | 'spend_cap_exceeded';

/** Sums in minor units. used, cap and expected are null where nothing had to be reserved. */
export interface Begun {
  readonly decision: 'forward' | LedgerRefusal;
  readonly reservationId: number | null;
  readonly amountMinor: number | null;
  readonly currency: string | null;
  readonly usedMinor: number | null;
  readonly capMinor: number | null;
  readonly expectedMinor: number | null;
}

/**
 * Decides whether a request may leave, reserves what it may spend and writes its audit row, in one commit before the
 * first byte. The same idempotency key again reserves nothing. Throws when the database gave no answer: then nothing
 * may be forwarded.
 */
export async function beginForward(db: Db, order: BeginOrder): Promise<Begun> {
  const { rows } = await sql<BegunRow>`
    SELECT * FROM vault_begin(${order.requestId}, ${order.keyId}, ${order.account}, ${order.liveMode}, ${order.kind},
      ${order.method}, ${order.path}, ${order.idempotencyKey}, ${order.attemptId}, ${order.requestHash},
      ${order.amountMinor}, ${order.currency}, ${order.objectId}, ${order.stripeCustomer}, ${order.marks},
      ${order.namespace}, ${order.period}, ${order.customerId})`.execute(db);
  const row = rows[0];
  if (row === undefined) throw new Error('vault_begin gave no row');
  return {
    decision: row.decision,
    reservationId: row.reservation,
    amountMinor: row.amount,
    currency: row.currency,
    usedMinor: row.used,
    capMinor: row.cap,
    expectedMinor: row.expected,
  };
}

interface BegunRow {
  decision: Begun['decision'];
  reservation: number | null;
  amount: number | null;
  currency: string | null;
  used: number | null;
  cap: number | null;
  expected: number | null;
}

/** A request of a known key that is refused without the ledger's help, such as a path that its policy does not name. */
export interface RefusedOrder {
  readonly requestId: string;
  readonly keyId: string;
  readonly idempotencyKey: string | null;
  readonly attemptId: string | null;
  readonly method: string;
  readonly path: string;
  /** the code of the refusal */
  readonly code: string;
}

/** Writes the audit row of a refused request. Twice with one id: the first row stays. */
export async function noteRefused(db: Db, order: RefusedOrder): Promise<void> {
  await sql`
    INSERT INTO vault_requests (request_id, key_id, idempotency_key, attempt_id, method, path, decision)
    VALUES (${order.requestId}, ${order.keyId}, ${order.idempotencyKey}, ${order.attemptId}, ${order.method},
      ${order.path}, ${order.code}) ON CONFLICT DO NOTHING`.execute(db);
}

/** What an answer means for the reservation; `held` also where nothing is known. */
export type Effect = 'spent' | 'released' | 'held' | 'none';

/** Error of a request that had its audit row and its reservation and, too long after them, was not sent at all. */
export const NOT_SENT = 'not_sent_too_late';

/** What came of a forwarded request. */
export interface FinishOrder {
  readonly requestId: string;
  /** null when no HTTP answer came */
  readonly status: number | null;
  /** what the socket said, without secrets; null when there was an answer */
  readonly error: string | null;
  readonly stripeRequestId: string | null;
  readonly replayed: boolean;
  readonly durationMs: number;
  /**
   * `nothing`: this send may yet have taken effect. `send`: this one did not, or did and said so. `key`: Stripe's
   * saved answer of the key has come, which speaks for every send of it.
   */
  readonly resolves: 'nothing' | 'send' | 'key';
  readonly to: 'spent' | 'released' | 'held';
  /** Stripe's word for it, such as a status, a decline code or `no_answer` */
  readonly reason: string;
  /** the object that a create made */
  readonly objectId: string | null;
}

/**
 * Writes what came of a forwarded request and moves its reservation, in one commit. A release waits until no send of
 * the reservation is open. Twice: the first answer stays.
 */
export async function finishForward(db: Db, order: FinishOrder): Promise<Effect> {
  const { rows } = await sql<{ effect: Effect }>`
    SELECT effect FROM vault_finish(${order.requestId}, ${order.status}, ${order.error}, ${order.stripeRequestId},
      ${order.replayed}, ${order.durationMs}, ${order.resolves}, ${order.to}, ${order.reason}, ${order.objectId})`.execute(
    db,
  );
  return rows[0]?.effect ?? 'none';
}

/** An intent of Stripe's that no reply has named here yet. */
export interface FoundIntent {
  readonly keyId: string;
  readonly objectId: string;
  readonly amountMinor: number;
  readonly currency: string;
  readonly stripeCustomer: string | null;
  readonly marks: Buffer;
  /** creation time at Stripe, seconds since 1970 */
  readonly createdAtSeconds: number;
}

/** Clocks of ours and Stripe's may differ by this much. */
const CLOCK_MARGIN = '5 minutes';

/**
 * Gives an intent to the reservation of the create that made it: sum, currency, customer and metadata are the same
 * and it was forwarded before. Says whose it is now, since creates that agree in all of that are interchangeable; null
 * when no create of this key can have made it. Twice, or by two at once: the same reservation.
 */
export async function bindIntent(db: Db, found: FoundIntent): Promise<number | null> {
  const { rows } = await sql<{ reservation: number | null }>`
    SELECT vault_bind(${found.keyId}, ${found.objectId}, ${found.amountMinor}, ${found.currency},
      ${found.stripeCustomer}, ${found.marks},
      to_timestamp(${found.createdAtSeconds}::double precision) + ${CLOCK_MARGIN}::interval) AS reservation`.execute(
    db,
  );
  return rows[0]?.reservation ?? null;
}

/** What an intent's metadata says it is for, in our own names. */
interface IntentPurpose {
  readonly namespace: string | null;
  readonly period: string | null;
  readonly customerId: string | null;
}

/**
 * Takes an intent of a billing run into the books of the run's key that was made before there was a vault, with nothing
 * set aside: its next confirm does that, as after a decline. Null unless the key is that of this very run and has a cap
 * in the currency. Twice, or by two at once: the same reservation.
 */
export async function takeInIntent(
  db: Db,
  found: FoundIntent,
  { namespace, period, customerId }: IntentPurpose,
): Promise<number | null> {
  await sql`
    INSERT INTO vault_reservations (key_id, currency, "window", amount_minor, state, reason, create_key, object_id,
      stripe_customer, marks, namespace, period, customer_id, forwards, settled_at)
    SELECT k.key_id, c.currency, '', ${found.amountMinor}, 'released', 'made_elsewhere', ${`made elsewhere: ${found.objectId}`},
      ${found.objectId}, ${found.stripeCustomer}, ${found.marks}, k.namespace, k.period, ${customerId}, 0, now()
    FROM vault_keys k JOIN vault_caps c USING (key_id)
    WHERE k.key_id = ${found.keyId} AND k.cap_basis = 'billing_period' AND k.namespace = ${namespace}
      AND k.period = ${period} AND c.currency = ${found.currency}
    ON CONFLICT DO NOTHING`.execute(db);
  const { rows } = await sql<{ reservation: number }>`
    SELECT reservation_id AS reservation FROM vault_reservations
    WHERE key_id = ${found.keyId} AND object_id = ${found.objectId}`.execute(db);
  return rows[0]?.reservation ?? null;
}
