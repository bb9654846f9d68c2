import { z } from 'zod';
import type { OpenReservation, Sight } from '../db/vault-looks.ts';
import { marksOf } from './marks.ts';

const fields = {
  id: z.string(),
  amount: z.int(),
  currency: z.string(),
  customer: z.union([z.string(), z.object({ id: z.string() })]).nullish(),
  metadata: z.record(z.string(), z.string()).nullish(),
  created: z.int(),
};
const intentSchema = z.object({
  ...fields,
  object: z.literal('payment_intent'),
  status: z.string(),
});
const chargeSchema = z.object({
  ...fields,
  object: z.literal('charge'),
  status: z.string(),
  captured: z.boolean(),
  refunded: z.boolean(),
  payment_intent: z.unknown(),
});
const objectSchema = z.discriminatedUnion('object', [intentSchema, chargeSchema]);
const pageSchema = z.object({ data: z.array(objectSchema), has_more: z.boolean() });

/** A PaymentIntent or a charge, as far as a look needs it. */
export type Seen = z.infer<typeof objectSchema>;

/** The object in a body of Stripe's, or null for anything else. */
export function readSeen(body: unknown): Seen | null {
  return objectSchema.safeParse(body).data ?? null;
}

/** A page of a list, or null for anything else. */
export function readSeenPage(body: unknown): z.infer<typeof pageSchema> | null {
  return pageSchema.safeParse(body).data ?? null;
}

export function customerOf({ customer }: Seen): string | null {
  return (typeof customer === 'object' ? customer?.id : customer) ?? null;
}

export function marksOfSeen({ metadata }: Seen): Buffer {
  return marksOf(Object.entries(metadata ?? {}));
}

/** A charge that an intent made is counted by the intent. */
export function standsAlone(seen: Seen): boolean {
  return (
    seen.object === 'payment_intent' ||
    seen.payment_intent === null ||
    seen.payment_intent === undefined
  );
}

/**
 * What an object of Stripe's says about the reservation that has it. Pure. Only `succeeded` is spent and only a state
 * that nothing can follow is released; whatever may still become money is held.
 */
export function sightOf(reservation: OpenReservation, seen: Seen): Sight {
  if (seen.amount !== reservation.amountMinor || seen.currency !== reservation.currency)
    return { to: 'held', reason: 'look_shows_another_sum' };
  return seen.object === 'charge' ? sightOfCharge(seen) : sightOfIntent(seen.status);
}

function sightOfIntent(status: string): Sight {
  switch (status) {
    case 'succeeded':
      return { to: 'spent', reason: status };
    case 'canceled':
      return { to: 'released', reason: status };
    case 'requires_payment_method':
    case 'requires_confirmation':
      // A confirm that is on its way would change it: the look counts when it is repeated after a quiet time.
      return { to: 'absent', reason: status };
    default:
      // processing, requires_action, requires_capture and what Stripe may add: money may follow by itself.
      return { to: 'held', reason: status };
  }
}

function sightOfCharge({ status, captured, refunded }: z.infer<typeof chargeSchema>): Sight {
  if (status === 'failed') return { to: 'released', reason: 'charge_failed' };
  if (status !== 'succeeded') return { to: 'held', reason: `charge_${status}` };
  if (captured) return { to: 'spent', reason: status };
  // An authorisation that was given up shows as refunded without having been captured.
  return refunded
    ? { to: 'released', reason: 'charge_not_captured' }
    : { to: 'held', reason: 'charge_not_captured' };
}
