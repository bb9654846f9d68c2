import type { Db } from '../db/database.ts';
import { bindIntent, takeInIntent, type FoundIntent } from '../db/vault-ledger.ts';
import { OUR_METADATA } from './form-body.ts';
import { customerOf, marksOfSeen, readSeen } from './sweep-look.ts';
import type { Upstream } from './upstream.ts';

/** `unseen`: Stripe did not answer the look, so whose intent it is stays open. */
export type Adoption = 'adopted' | 'foreign' | 'unseen';

/**
 * Looks an intent up at Stripe that no reply has named here, and gives it to the create that must have made it. One that
 * a billing run made before there was a vault goes to the run's key. Foreign when neither is so, or Stripe has no such
 * intent. Twice: adopted both times. Throws when the database fails.
 */
export async function adoptIntent(
  db: Db,
  upstream: Pick<Upstream, 'get'>,
  wanted: { readonly keyId: string; readonly objectId: string },
): Promise<Adoption> {
  const { keyId, objectId } = wanted;
  const read = await upstream.get(`/v1/payment_intents/${objectId}`);
  if (read.kind === 'lost') return 'unseen';
  if (read.status === 404) return 'foreign';
  const seen = read.status === 200 ? readSeen(read.body) : null;
  if (seen?.object !== 'payment_intent' || seen.id !== objectId) return 'unseen';
  const { amount, currency, metadata, created } = seen;
  const found: FoundIntent = {
    keyId,
    objectId,
    amountMinor: amount,
    currency,
    stripeCustomer: customerOf(seen),
    marks: marksOfSeen(seen),
    createdAtSeconds: created,
  };
  const reservationId =
    (await bindIntent(db, found)) ??
    (await takeInIntent(db, found, {
      namespace: metadata?.[OUR_METADATA.namespace] ?? null,
      period: metadata?.[OUR_METADATA.period] ?? null,
      customerId: metadata?.[OUR_METADATA.customerId] ?? null,
    }));
  return reservationId === null ? 'foreign' : 'adopted';
}
