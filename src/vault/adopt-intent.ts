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

/** `unseen`: Stripe did not answer the look, so whose intent it is stays open. */
export type Adoption = 'adopted' | 'foreign' | 'unseen';

/**
 * Looks an intent up at Stripe that no reply has named here, and gives it to the create that must have made it. Foreign
 * when no create of this key did, or Stripe has no such intent. Twice: adopted both times. Throws when the database fails.
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
  const parsed = intentSchema.safeParse(read.body);
  if (read.status !== 200 || !parsed.success || parsed.data.id !== objectId) return 'unseen';
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
  return reservationId === null ? 'foreign' : 'adopted';
}
