import { z } from 'zod';
import type { Db } from '../db/database.ts';
import { bindIntent } from '../db/vault-ledger.ts';
import { marksOf } from './marks.ts';
import type { Upstream } from './upstream.ts';

const intentSchema = z.object({
  object: z.literal('payment_intent'),
  id: z.string(),
  amount: z.int(),
  currency: z.string(),
  customer: z.union([z.string(), z.object({ id: z.string() })]).nullish(),
  metadata: z.record(z.string(), z.string()).nullish(),
  created: z.int(),
});

/**
 * Looks an intent up at Stripe that no reply has named here, and gives it to the create that must have made it. False
 * when no create of this key did, or Stripe did not show it. Twice: true both times. Throws when the database fails.
 */
export async function adoptIntent(
  db: Db,
  upstream: Pick<Upstream, 'get'>,
  wanted: { readonly keyId: string; readonly objectId: string },
): Promise<boolean> {
  const { keyId, objectId } = wanted;
  const read = await upstream.get(`/v1/payment_intents/${objectId}`);
  if (read.kind === 'lost' || read.status !== 200) return false;
  const parsed = intentSchema.safeParse(read.body);
  if (!parsed.success || parsed.data.id !== objectId) return false;
  const { amount, currency, customer, metadata, created } = parsed.data;
  const reservationId = await bindIntent(db, {
    keyId,
    objectId,
    amountMinor: amount,
    currency,
    stripeCustomer: (typeof customer === 'object' ? customer?.id : customer) ?? null,
    marks: marksOf(Object.entries(metadata ?? {})),
    createdAtSeconds: created,
  });
  return reservationId !== null;
}
