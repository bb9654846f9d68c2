import type { ChargeOutcome } from '../domain/charge.ts';
import { FAILURES } from '../domain/failures.ts';
import { adoptIntent } from '../db/generations.ts';
import { noteUnknown } from '../db/reviews.ts';
import type { ChargeFacts } from '../db/sends.ts';
import { METADATA } from '../domain/metadata.ts';
import { ListTooLong, type PaymentIntentFacts, type ProviderEvent } from '../payments/gateway.ts';
import type { ActivityDeps } from './deps.ts';
import { stop } from './errors.ts';
import { indeterminate } from './read-intent.ts';

/** Clocks of ours and Stripe's may differ; a list by creation time starts this much before the first send. */
const CLOCK_MARGIN_SECONDS = 5 * 60;
/** A create that took effect did so within its time-outs and resends; its event is no later than this. */
const EVENT_WINDOW_SECONDS = 30 * 60;
/** A charge this much older than the first send of the confirm was not made by it. */
const CHARGE_MARGIN_SECONDS = 30;

/**
 * The slot's PaymentIntent as Stripe shows it now, or null when Stripe has none that carries its key. By
 * id when we know it, else by list (lists are consistent, Search lags), else by event. An intent found
 * is kept, so that it is confirmed and no other is made. Throws LookupFailed when Stripe gave no answer.
 */
export async function findIntent(
  deps: ActivityDeps,
  facts: ChargeFacts,
): Promise<PaymentIntentFacts | null> {
  if (facts.paymentIntentId !== null) {
    return deps.gateway.retrievePaymentIntent(facts.paymentIntentId);
  }
  const since = facts.create.firstSentAt;
  if (since === null) return null;
  const sentAt = Math.floor(since.getTime() / 1000);
  const found = (await findInList(deps, facts, sentAt)) ?? (await findByEvent(deps, facts, sentAt));
  if (found === null) return null;
  const { generation } = facts;
  await adoptIntent(deps.db, facts.slot, { generation, paymentIntentId: found.id });
  return found;
}

async function findInList(
  deps: ActivityDeps,
  facts: ChargeFacts,
  sentAt: number,
): Promise<PaymentIntentFacts | null> {
  const listed = await deps.gateway.listPaymentIntents({
    customer: facts.stripeCustomerId,
    createdGte: sentAt - CLOCK_MARGIN_SECONDS,
  });
  const [found, ...others] = listed.filter((intent) => isOurs(facts, intent));
  if (others.length > 0) {
    // Only a person can say which one counts; without this note nobody would be asked.
    const { generation, slot } = facts;
    await noteUnknown(deps.db, slot, {
      generation,
      reason: 'several_payment_intents',
      reviewAfterHours: 0,
    });
    throw stop(
      FAILURES.invariantBroken,
      `several PaymentIntents carry the key of ${facts.slot.customerId}`,
    );
  }
  return found ?? null;
}

/** The list is by customer: an intent whose customer was changed or deleted at Stripe is only in events. */
async function findByEvent(
  deps: ActivityDeps,
  facts: ChargeFacts,
  sentAt: number,
): Promise<PaymentIntentFacts | null> {
  // Inside the window the same key brings the reply back, without reading anybody else's events.
  if (facts.create.windowOpen && !facts.create.spent) return null;
  const events = await eventsAround(deps, sentAt);
  const event = events.find((one) => one.idempotencyKey === facts.create.key);
  if (event === undefined || event.paymentIntentId === null) return null;
  return deps.gateway.retrievePaymentIntent(event.paymentIntentId);
}

/**
 * The intents created then, ours and everybody else's: a run makes more of them than may be read. What the events would
 * add is an intent that the customer's list has lost; one that is missed stays unconfirmed and takes no money, while
 * a slot that can never be looked up to the end would wait for a person.
 */
async function eventsAround(deps: ActivityDeps, sentAt: number): Promise<readonly ProviderEvent[]> {
  try {
    return await deps.gateway.listEvents({
      types: ['payment_intent.created'],
      createdGte: sentAt - CLOCK_MARGIN_SECONDS,
      createdLte: sentAt + EVENT_WINDOW_SECONDS,
    });
  } catch (error) {
    if (error instanceof ListTooLong) return [];
    throw error;
  }
}

function isOurs(facts: ChargeFacts, intent: PaymentIntentFacts): boolean {
  return (
    intent.metadata[METADATA.key] === facts.create.key &&
    intent.amountMinor === facts.amountMinor &&
    intent.currency === facts.currency
  );
}

/**
 * The decline of this generation's confirm among the charges of its intent, where the intent itself cannot
 * say whether its last error is ours: a failed charge that no earlier generation names, not older than
 * the first send. Null when there is none.
 */
export async function declineAmong(
  deps: ActivityDeps,
  facts: ChargeFacts,
  intent: PaymentIntentFacts,
): Promise<ChargeOutcome | null> {
  const since = facts.confirm.firstSentAt;
  if (since === null) return null;
  const notBefore = Math.floor(since.getTime() / 1000) - CHARGE_MARGIN_SECONDS;
  const charges = await deps.gateway.listChargesOf(intent.id);
  const ours = charges.find(
    (charge) =>
      charge.status === 'failed' &&
      charge.created >= notBefore &&
      !facts.earlierCharges.includes(charge.id),
  );
  if (ours === undefined) return null;
  const reason = ours.failureCode ?? 'card_declined';
  if (reason === 'duplicate_transaction') return indeterminate(reason);
  return {
    outcome: 'declined',
    paymentIntentId: intent.id,
    declinedChargeId: ours.id,
    reason,
    advice: 'no_automatic_rerun',
  };
}
