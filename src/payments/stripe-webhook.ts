import { isUtf8 } from 'node:buffer';
import Stripe from 'stripe';
import { z } from 'zod';
import { parseBillingPeriod } from '../domain/billing-period.ts';
import { parseCustomerId } from '../domain/customer-id.ts';
import type { SlotRef } from '../domain/ids.ts';
import type { WebhookFacts } from '../domain/webhook-facts.ts';
import { parseBillingNamespace } from '../domain/namespace.ts';
import { METADATA } from '../domain/metadata.ts';

/** Stripe's own tolerance (docs.stripe.com/webhooks#verify-manually), here in both directions. */
const SIGNATURE_TOLERANCE_SECONDS = 300;

type WebhookRefusal = 'no_signature' | 'stale_signature' | 'wrong_signature' | 'not_an_event';

export type WebhookReading =
  | { readonly kind: 'event'; readonly event: WebhookFacts }
  | { readonly kind: 'refused'; readonly reason: WebhookRefusal };

export interface SignedBody {
  /** the bytes as they came: a parsed and printed body has another signature */
  readonly body: Buffer;
  readonly signature: string | undefined;
  readonly nowMs: number;
}

/**
 * Reads an event that one of the secrets has signed, not more than five minutes ago. A time in the
 * future is refused as well: Stripe's SDK lets it pass, but with a slow clock here it would stretch
 * the tolerance for a recorded request. Pure: the same input gives the same reading.
 */
export function readStripeWebhook(secrets: readonly string[], from: SignedBody): WebhookReading {
  const { body, signature, nowMs } = from;
  if (signature === undefined || signature === '') return refused('no_signature');
  const signedAt = signedAtOf(signature);
  if (signedAt === null) return refused('wrong_signature');
  const ageSeconds = Math.floor(nowMs / 1000) - signedAt;
  if (Math.abs(ageSeconds) > SIGNATURE_TOLERANCE_SECONDS) return refused('stale_signature');
  // The SDK decodes before it signs; what is not UTF-8 would be signed as something else.
  if (!isUtf8(body)) return refused('wrong_signature');
  if (!secrets.some((secret) => isSignedWith(secret, from))) return refused('wrong_signature');
  const event = readEvent(body.toString('utf8'));
  return event === null ? refused('not_an_event') : { kind: 'event', event };
}

function refused(reason: WebhookRefusal): WebhookReading {
  return { kind: 'refused', reason };
}

/** The header's time as the SDK reads it: of several, the last. */
function signedAtOf(signature: string): number | null {
  const last = signature.split(',').findLast((part) => part.startsWith('t='));
  const digits = /^t=(\d{1,12})$/.exec(last ?? '')?.[1];
  return digits === undefined ? null : Number(digits);
}

function isSignedWith(secret: string, { body, signature, nowMs }: SignedBody): boolean {
  try {
    const { signature: verifier } = Stripe.webhooks;
    if (verifier === null) throw new TypeError('this build of stripe verifies no signatures');
    // The tolerance is stated, not left to the SDK: some of its versions check no age without one.
    return verifier.verifyHeader(
      body,
      signature ?? '',
      secret,
      SIGNATURE_TOLERANCE_SECONDS,
      undefined,
      nowMs,
    );
  } catch (error) {
    if (error instanceof Stripe.errors.StripeSignatureVerificationError) return false;
    throw error;
  }
}

const id = z.string().regex(/^[A-Za-z0-9_]{1,255}$/);
const reference = z.union([id, z.object({ id })]).nullish();
const eventSchema = z.object({
  object: z.literal('event'),
  id,
  type: z.string().regex(/^[a-z0-9_.]{1,100}$/),
  api_version: z.string().max(100).nullish(),
  account: id.nullish(),
  livemode: z.boolean(),
  created: z.int().min(0).max(100_000_000_000),
  request: z.object({ idempotency_key: z.string().nullish() }).nullish().catch(null),
  data: z.object({
    object: z.object({
      id: id.nullish().catch(null),
      object: z.string(),
      payment_intent: reference.catch(null),
      charge: reference.catch(null),
      latest_charge: reference.catch(null),
      metadata: z.record(z.string(), z.string()).nullish().catch(null),
    }),
  }),
});

function readEvent(text: string): WebhookFacts | null {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    return null;
  }
  const parsed = eventSchema.safeParse(json);
  if (!parsed.success) return null;
  const event = parsed.data;
  const { object } = event.data;
  return {
    eventId: event.id,
    type: event.type,
    apiVersion: event.api_version ?? null,
    account: event.account ?? null,
    livemode: event.livemode,
    createdSeconds: event.created,
    // Objects without an id of their own (a balance) concern nobody here; the event's id names them.
    objectId: object.id ?? event.id,
    paymentIntentId:
      object.object === 'payment_intent' ? (object.id ?? null) : idOf(object.payment_intent),
    chargeId:
      object.object === 'charge'
        ? (object.id ?? null)
        : (idOf(object.charge) ?? idOf(object.latest_charge)),
    idempotencyKey: ourKey(event.request?.idempotency_key),
    slot: slotOf(object.metadata ?? {}),
  };
}

function idOf(value: string | { id: string } | null | undefined): string | null {
  if (value == null) return null;
  return typeof value === 'string' ? value : value.id;
}

function ourKey(key: string | null | undefined): string | null {
  return key != null && /^bill\.v1\.[0-9a-f]{64}$/.test(key) ? key : null;
}

function slotOf(metadata: Readonly<Record<string, string>>): SlotRef | null {
  const namespace = parseBillingNamespace(metadata[METADATA.namespace] ?? '');
  const period = parseBillingPeriod(metadata[METADATA.period] ?? '');
  const customer = parseCustomerId(metadata[METADATA.customer] ?? '');
  if (!namespace.ok || !period.ok || !customer.ok) return null;
  return {
    namespace: namespace.namespace,
    period: period.period,
    customerId: customer.customerId,
  };
}
