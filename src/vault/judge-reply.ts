import { z } from 'zod';
import type { FinishOrder, SpendKind } from '../db/vault-ledger.ts';
import { assertNever } from '../domain/assert-never.ts';
import { parseJson } from '../domain/json.ts';

/** What was asked, as far as the reply must agree with it. */
export interface Asked {
  readonly kind: SpendKind;
  readonly object: 'payment_intent' | 'charge' | null;
  /** the object in the path, null for a create */
  readonly objectId: string | null;
  /** of the reservation; null where there is none */
  readonly amountMinor: number | null;
  readonly currency: string | null;
  /** of a create; null when it named none */
  readonly stripeCustomer: string | null;
}

/** What came back, or that nothing whole did. */
export type UpstreamAnswer =
  | {
      readonly kind: 'reply';
      readonly status: number;
      readonly contentType: string | null;
      /** Idempotent-Replayed: the saved answer of the key's first execution */
      readonly replayed: boolean;
      /** null when it was too large to read */
      readonly body: Buffer | null;
    }
  | { readonly kind: 'lost'; readonly reason: string };

/** What a reply means for the reservation. */
export interface Judgement extends Pick<FinishOrder, 'to' | 'resolves' | 'reason' | 'objectId'> {
  /** what Stripe's object has otherwise than was asked; null when it agrees */
  readonly mismatch: string | null;
}

const nullable = z.string().nullish();
const objectSchema = z.object({
  object: z.enum(['payment_intent', 'charge']),
  id: z.string().regex(/^(?:pi|ch|py)_[A-Za-z0-9_]{1,250}$/),
  status: z.string(),
  amount: z.int(),
  currency: z.string(),
  customer: z.union([z.string(), z.object({ id: z.string() })]).nullish(),
  captured: z.boolean().nullish(),
});
type StripeObject = z.infer<typeof objectSchema>;

const errorSchema = z.object({
  error: z.object({
    type: z.string(),
    code: nullable,
    decline_code: nullable,
    payment_intent: objectSchema.nullish().catch(null),
  }),
});
type StripeError = z.infer<typeof errorSchema>['error'];

/**
 * Reply → what it proves. Only proof settles or releases; whatever is unknown, unreadable or about something else
 * holds. Pure; messages are never read. One rule per `if`.
 */
export function judgeReply(asked: Asked, answer: UpstreamAnswer): Judgement {
  const judgement = judge(asked, answer);
  // A cancel takes no money, whatever became of it: it must not stand in the way of a later release.
  const harmless = asked.kind === 'cancel' && judgement.resolves === 'nothing';
  return harmless ? { ...judgement, resolves: 'send' } : judgement;
}

function judge(asked: Asked, answer: UpstreamAnswer): Judgement {
  if (answer.kind === 'lost') return hold(answer.reason);
  const { status } = answer;
  const body = readJson(answer);
  if (asked.kind === 'plain') return judgePlain(status, body !== null);
  if (asked.kind === 'read') return judgeRead(asked, status, body);
  if (status >= 200 && status < 300) {
    const object = objectSchema.safeParse(body);
    // Stripe did something, and we cannot read what.
    return object.success ? judgeObject(asked, object.data) : hold('unreadable_reply');
  }
  // Stripe never redirects an API call; whoever does is not Stripe.
  if (status < 400) return hold(`http_${status}`);
  // 5xx: may have charged. 409 and 429: another send of the key may be running, or the object is locked.
  if (status >= 500 || status === 409 || status === 429) return hold(`http_${status}`);
  const parsed = errorSchema.safeParse(body);
  if (!parsed.success) return hold(`unreadable_${status}`);
  return judgeRefusal(asked, { status, replayed: answer.replayed, error: parsed.data.error });
}

/** A 2xx: the object as it is now, if it is the one that was asked for. */
function judgeObject(asked: Asked, object: StripeObject): Judgement {
  const mismatch = mismatchOf(asked, object);
  if (mismatch !== null) return { ...hold('reply_mismatch'), mismatch };
  return { ...judgeState(object), objectId: asked.kind === 'create' ? object.id : null };
}

function judgeState(object: StripeObject): Judgement {
  if (object.object === 'charge') {
    const reason = `charge_${object.status}`;
    return object.status === 'succeeded' && object.captured !== false
      ? settle(object.status)
      : hold(reason);
  }
  switch (object.status) {
    case 'succeeded':
      return settle('succeeded');
    case 'canceled':
      return { ...hold('canceled'), to: 'released', resolves: 'key' };
    case 'requires_payment_method':
    case 'requires_confirmation':
      // Made, and nothing moves by itself: the sum stays set aside for the confirm.
      return { ...hold(object.status), resolves: 'key' };
    default:
      // processing, requires_action, requires_capture, and what Stripe may add: money may follow without another send.
      return hold(object.status);
  }
}

function judgeRefusal(
  asked: Asked,
  refusal: { readonly status: number; readonly replayed: boolean; readonly error: StripeError },
): Judgement {
  const { status, error } = refusal;
  const reason = error.decline_code ?? error.code ?? error.type;
  const intent = error.payment_intent ?? null;
  const mismatch = intent === null ? null : mismatchOf(asked, intent);
  if (mismatch !== null) return { ...hold('reply_mismatch'), mismatch };
  // "This key was used before": something was sent under it, nobody here knows what became of it.
  if (error.type === 'idempotency_error') return hold('idempotency_error');
  const objectId =
    asked.kind === 'create' && asked.object === 'payment_intent' ? (intent?.id ?? null) : null;
  if (intent !== null && !isIdle(intent.status)) return { ...judgeState(intent), objectId };
  if (status === 402) {
    // Only Stripe's card_error is a decline; a host whose own bill is unpaid says 402 too.
    if (error.type !== 'card_error') return hold('http_402');
    // A refused capture or cancel leaves the money where it is.
    if (!spends(asked.kind)) return hold(reason);
    return { to: 'released', resolves: 'key', reason, objectId, mismatch: null };
  }
  const definite = [400, 401, 403, 404].includes(status) && error.type !== 'api_error';
  // Refused for the state that the object is in, without showing it.
  if (!definite || (intent === null && STATE_CODES.has(error.code ?? ''))) return hold(reason);
  const resolves = refusal.replayed ? 'key' : 'send';
  return {
    to: spends(asked.kind) ? 'released' : 'held',
    resolves,
    reason,
    objectId,
    mismatch: null,
  };
}

/** Refusals that speak of what happened before, not of this request. */
const STATE_CODES = new Set([
  'payment_intent_unexpected_state',
  'payment_intent_action_required',
  'payment_intent_payment_attempt_failed',
  'charge_already_captured',
  'charge_already_refunded',
  'resource_already_exists',
]);

/** States of an intent in which nothing is under way. */
function isIdle(status: string): boolean {
  return status === 'requires_payment_method' || status === 'requires_confirmation';
}

/** Kinds whose refusal means that the sum was not spent. */
function spends(kind: SpendKind): boolean {
  switch (kind) {
    case 'create':
    case 'confirm':
      return true;
    case 'capture':
    case 'cancel':
    case 'plain':
    case 'read':
      return false;
    default:
      return assertNever(kind);
  }
}

/** A read changes nothing; what it shows of a finished intent is as good as a look of our own. */
function judgeRead(asked: Asked, status: number, body: unknown): Judgement {
  const nothing = hold(`http_${status}`);
  if (status !== 200 || asked.object !== 'payment_intent') return nothing;
  const object = objectSchema.safeParse(body);
  if (!object.success || object.data.id !== asked.objectId) return nothing;
  return object.data.status === 'succeeded' ? settle('succeeded') : hold(object.data.status);
}

/** No money: only whether the saved answer of the key has come. */
function judgePlain(status: number, readable: boolean): Judgement {
  const known = readable && status < 500 && status !== 409 && status !== 429;
  return { ...hold(`http_${status}`), resolves: known ? 'key' : 'nothing' };
}

function mismatchOf(asked: Asked, object: StripeObject): string | null {
  const customer = typeof object.customer === 'object' ? object.customer?.id : object.customer;
  if (object.object !== asked.object) return 'object';
  if (asked.objectId !== null && object.id !== asked.objectId) return 'id';
  if (asked.amountMinor !== null && object.amount !== asked.amountMinor) return 'amount';
  if (asked.currency !== null && object.currency.toLowerCase() !== asked.currency)
    return 'currency';
  if (asked.stripeCustomer !== null && customer !== asked.stripeCustomer) return 'customer';
  return null;
}

function readJson(reply: Extract<UpstreamAnswer, { kind: 'reply' }>): unknown {
  if (reply.body === null || !/^application\/json\b/i.test(reply.contentType ?? '')) return null;
  return parseJson(reply.body.toString('utf8')) ?? null;
}

function hold(reason: string): Judgement {
  return { to: 'held', resolves: 'nothing', reason, objectId: null, mismatch: null };
}

function settle(reason: string): Judgement {
  return { to: 'spent', resolves: 'key', reason, objectId: null, mismatch: null };
}
