import { sql } from 'kysely';
import type { SlotRef } from '../domain/ids.ts';
import { writeAuditEntry } from './audit-log.ts';
import type { Db } from './database.ts';
import { hasOpenKey, lockSlot, openGeneration, type FreezeNext } from './generations.ts';

export interface AbsenceRead {
  readonly generation: number;
  /** the key that seems to have done nothing */
  readonly key: string;
  /** what Stripe showed instead of an effect */
  readonly sees: string;
  /** between the last send and the first read, and between both reads, in milliseconds */
  readonly quietMs: number;
  /** requests of the next generation; null: this reader may look, not open anything */
  readonly freezeNext: FreezeNext | null;
}

/** `proven`: the generation is closed as absent and the named one is open. `waiting`: one more look is due. */
export type AbsenceAnswer =
  | { readonly kind: 'proven'; readonly generation: number }
  | { readonly kind: 'waiting' }
  | { readonly kind: 'movedOn' };

/**
 * Notes that Stripe shows no effect of a key, and, when an earlier note says the same a quiet time ago and
 * nothing was sent since, closes the generation as `absent` and opens the next one. All under the slot's
 * row lock, so that two at once open one generation. Called again: notes once more, opens nothing twice.
 */
export async function noteAbsence(
  db: Db,
  slot: SlotRef,
  read: AbsenceRead,
): Promise<AbsenceAnswer> {
  return db.transaction().execute(async (trx) => {
    const locked = await lockSlot(trx, slot);
    const inDoubt =
      locked?.state === 'sent' ||
      locked?.state === 'indeterminate' ||
      locked?.state === 'in_review';
    if (locked === null || !inDoubt || locked.generation !== read.generation) {
      return { kind: 'movedOn' };
    }
    // A person was faster and has closed it: whether the customer is billed again is theirs to order.
    if (!(await hasOpenKey(trx, slot))) return { kind: 'movedOn' };
    const noted = await insertRead(trx, slot, read);
    if (!noted.quiet || !noted.confirmed || read.freezeNext === null) return { kind: 'waiting' };
    // A slot without a payment method has nothing to send next: a person looks at it in the end.
    if (locked.paymentMethodId === null) return { kind: 'waiting' };
    const generation = read.generation + 1;
    await closeAsAbsent(trx, slot, read.generation);
    const frozen = read.freezeNext({
      ...locked,
      paymentMethodId: locked.paymentMethodId,
      generation,
    });
    await openGeneration(trx, { slot, generation, frozen });
    await writeAuditEntry(trx, {
      actor: 'run',
      action: 'slot.absent',
      namespace: slot.namespace,
      period: slot.period,
      customerId: slot.customerId,
      reason: `Stripe showed ${read.sees} twice, a quiet time apart`,
      details: { generation: read.generation, key: read.key, sees: read.sees },
    });
    return { kind: 'proven', generation };
  });
}

/** A read counts only when the last send of the generation lies a quiet time back. */
async function insertRead(
  trx: Db,
  slot: SlotRef,
  read: AbsenceRead,
): Promise<{ quiet: boolean; confirmed: boolean }> {
  const { rows } = await sql<{ quiet: boolean; confirmed: boolean }>`
    WITH last_send AS (
      SELECT max(a.sent_at) AS at FROM charge_attempts a JOIN charge_generations g USING (idempotency_key)
      WHERE g.namespace = ${slot.namespace} AND g.period = ${slot.period} AND g.customer_id = ${slot.customerId}
    ), quiet AS (
      SELECT coalesce(at, '-infinity') AS since,
        coalesce(at, '-infinity') <= now() - make_interval(secs => ${read.quietMs / 1000}::double precision) AS long_enough
      FROM last_send
    ), noted AS (
      INSERT INTO absence_reads (namespace, period, customer_id, generation, idempotency_key, sees)
      SELECT ${slot.namespace}, ${slot.period}, ${slot.customerId}, ${read.generation}, ${read.key}, ${read.sees}
      FROM quiet WHERE long_enough
    )
    SELECT long_enough AS quiet, EXISTS (
      SELECT FROM absence_reads r
      WHERE r.idempotency_key = ${read.key} AND r.sees = ${read.sees}
        AND r.read_at <= now() - make_interval(secs => ${read.quietMs / 1000}::double precision)
        AND r.read_at >= quiet.since + make_interval(secs => ${read.quietMs / 1000}::double precision)
        AND NOT EXISTS (SELECT FROM absence_reads other
          WHERE other.idempotency_key = r.idempotency_key AND other.id > r.id AND other.sees <> r.sees)
    ) AS confirmed
    FROM quiet`.execute(trx);
  const row = rows[0];
  if (row === undefined) throw new Error('reading the absence of a charge gave no row');
  return row;
}

/** Closes whatever is open of a locked slot's generation with the proof that it did nothing. */
export async function closeAsAbsent(trx: Db, slot: SlotRef, generation: number): Promise<void> {
  await trx
    .updateTable('charge_generations')
    .set({ outcome: 'absent', finished_at: sql`now()` })
    .where('namespace', '=', slot.namespace)
    .where('period', '=', slot.period)
    .where('customer_id', '=', slot.customerId)
    .where('generation', '<=', generation)
    .where('outcome', 'is', null)
    .execute();
  // `sent` leads to the next generation only by way of "not known".
  await trx
    .updateTable('billing_charges')
    .set({ state: 'indeterminate', reason: 'absent' })
    .where('namespace', '=', slot.namespace)
    .where('period', '=', slot.period)
    .where('customer_id', '=', slot.customerId)
    .where('state', '=', 'sent')
    .execute();
}
