import { z } from 'zod';
import {
  LookupFailed,
  type ChargeSeen,
  type PaymentIntentFacts,
  type ProviderEvent,
} from './gateway.ts';

// What we read of Stripe's objects, and nothing else: the rest stays at Stripe.

const nullable = z.string().nullish();
/** Stripe gives an id, or the whole object where it is expanded; {@link idOf} reads either. */
export const expandable = z.union([z.string(), z.object({ id: z.string() })]).nullish();

export const accountSchema = z.object({ id: z.string().min(1) });

export const intentSchema = z.object({
  object: z.literal('payment_intent'),
  id: z.string().min(1),
  status: z.string(),
  amount: z.int(),
  currency: z.string(),
  customer: expandable,
  metadata: z.record(z.string(), z.string()).nullish(),
  latest_charge: expandable,
  last_payment_error: z
    .object({ code: nullable, decline_code: nullable, advice_code: nullable, charge: nullable })
    .nullish(),
});

export const errorSchema = z.object({
  type: nullable,
  code: nullable,
  decline_code: nullable,
  advice_code: nullable,
  message: nullable,
  payment_intent: intentSchema.nullish().catch(null),
});

export const chargeSchema = z.object({
  object: z.literal('charge'),
  id: z.string().min(1),
  status: z.string(),
  amount: z.int(),
  amount_refunded: z.int(),
  currency: z.string(),
  customer: expandable,
  payment_intent: expandable,
  created: z.int(),
  failure_code: nullable,
});

export const eventSchema = z.object({
  object: z.literal('event'),
  id: z.string().min(1),
  type: z.string(),
  // Before API 2017-05-25 the request was a bare id.
  request: z.object({ idempotency_key: nullable }).nullish().catch(null),
  data: z.object({
    object: z.object({ object: z.string(), id: z.string().optional(), payment_intent: expandable }),
  }),
});

/** Reads a reply, or throws {@link LookupFailed}: what cannot be read says nothing. */
export function parseReply<T>(schema: z.ZodType<T>, body: unknown): T {
  const parsed = schema.safeParse(body);
  if (parsed.success) return parsed.data;
  throw new LookupFailed('the answer is not what Stripe documents', {
    status: null,
    cause: parsed.error,
  });
}

export function toFacts(intent: z.infer<typeof intentSchema>): PaymentIntentFacts {
  const error = intent.last_payment_error;
  return {
    id: intent.id,
    status: intent.status,
    amountMinor: intent.amount,
    currency: intent.currency,
    customer: idOf(intent.customer),
    metadata: intent.metadata ?? {},
    latestCharge: idOf(intent.latest_charge),
    lastError:
      error == null
        ? null
        : {
            code: error.code ?? null,
            declineCode: error.decline_code ?? null,
            adviceCode: error.advice_code ?? null,
            chargeId: error.charge ?? null,
          },
  };
}

export function toCharge(charge: z.infer<typeof chargeSchema>): ChargeSeen {
  return {
    id: charge.id,
    status: charge.status,
    amountMinor: charge.amount,
    currency: charge.currency,
    customer: idOf(charge.customer),
    paymentIntentId: idOf(charge.payment_intent),
    created: charge.created,
    failureCode: charge.failure_code ?? null,
    amountRefundedMinor: charge.amount_refunded,
  };
}

export function toEvent(event: z.infer<typeof eventSchema>): ProviderEvent {
  const about = event.data.object;
  const isIntent = about.object === 'payment_intent';
  return {
    id: event.id,
    type: event.type,
    idempotencyKey: event.request?.idempotency_key ?? null,
    paymentIntentId: isIntent ? (about.id ?? null) : idOf(about.payment_intent),
  };
}

/** The id of an object that may be expanded or missing. */
export function idOf(value: string | { id: string } | null | undefined): string | null {
  if (value == null) return null;
  return typeof value === 'string' ? value : value.id;
}
