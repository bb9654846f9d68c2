import { assertNever } from '../../domain/assert-never.ts';
import type { ClaimedEvent, EventSlot } from '../../db/webhook-events.ts';
import type { WebhookResult } from '../../db/schema.ts';

/** What to do about an event. It never moves a slot: at most it asks for a look at Stripe. */
export type Decision =
  | { readonly kind: 'finish'; readonly result: WebhookResult }
  /** `unswept`: no sweep asks for this slot, so a look that fails must be made again for the event */
  | { readonly kind: 'look'; readonly unswept?: true }
  /** the charge is being made just now and writes its own end */
  | { readonly kind: 'wait' }
  /** it carries our metadata, and its slot is not there yet */
  | { readonly kind: 'park' };

/**
 * Of an attempt to charge: it succeeded, it did not, or it takes days. `aftermath` is money that moved
 * later (refund, dispute): the slot stays charged.
 */
type Meaning = 'success' | 'failure' | 'processing' | 'aftermath';

const MEANINGS: ReadonlyMap<string, Meaning> = new Map([
  ['payment_intent.succeeded', 'success'],
  ['charge.succeeded', 'success'],
  ['payment_intent.payment_failed', 'failure'],
  ['payment_intent.canceled', 'failure'],
  // Off-session nobody is there to act: it ends as a decline.
  ['payment_intent.requires_action', 'failure'],
  ['charge.failed', 'failure'],
  ['payment_intent.processing', 'processing'],
  ['charge.refunded', 'aftermath'],
  ['charge.dispute.created', 'aftermath'],
  ['charge.dispute.closed', 'aftermath'],
]);

/** The types worth an endpoint's subscription: one of a payment says what the one of its charge says. */
export const WEBHOOK_TYPES: readonly string[] = [...MEANINGS.keys()].filter(
  (type) => type !== 'charge.succeeded' && type !== 'charge.failed',
);

/** False for types that nothing here follows from: they are acknowledged and not kept. */
export function isOfInterest(type: string): boolean {
  return MEANINGS.has(type);
}

/** What an event means for its slot, which is null when there is no row. Pure. */
export function decide(
  event: Pick<ClaimedEvent, 'type' | 'paymentIntentId' | 'slot' | 'attempt'>,
  found: EventSlot | null,
): Decision {
  const meaning = MEANINGS.get(event.type);
  const isOurs = found !== null || event.slot !== null;
  if (meaning === undefined || !isOurs) return finish('ignored');
  if (meaning === 'aftermath') return finish('noted');
  if (found === null) return { kind: 'park' };
  const isOther =
    event.paymentIntentId !== null &&
    found.paymentIntentId !== null &&
    event.paymentIntentId !== found.paymentIntentId;
  // What another PaymentIntent went through says nothing about the slot's own (H8). Its success is money.
  if (isOther) return finish(meaning === 'success' ? 'other_success' : 'other_intent');
  return decideByState(meaning, event.attempt, found);
}

function decideByState(
  meaning: Exclude<Meaning, 'aftermath'>,
  attempt: number,
  { state }: EventSlot,
): Decision {
  switch (state) {
    case 'charged':
      return finish('already_known');
    case 'claimed':
    case 'sent':
      return attempt === 1 ? { kind: 'wait' } : { kind: 'look' };
    case 'indeterminate':
    case 'in_review':
      return meaning === 'processing' ? finish('already_known') : { kind: 'look' };
    case 'declined':
    case 'misconfigured':
    case 'blocked':
      // A success is the truth, whatever we believe; a failure is what we believe already.
      return meaning === 'success' ? { kind: 'look', unswept: true } : finish('already_known');
    case 'skipped':
      // Nothing was ever sent for it: whoever was paid, it was not by us.
      return finish(meaning === 'success' ? 'other_success' : 'already_known');
    default:
      return assertNever(state);
  }
}

function finish(result: WebhookResult): Decision {
  return { kind: 'finish', result };
}
