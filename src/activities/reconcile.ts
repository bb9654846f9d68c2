import { sql } from 'kysely';
import type { ChargeResult, ReconcileAnswer } from '../domain/charge.ts';
import { FAILURES } from '../domain/failures.ts';
import type { ChargeFacts } from '../db/sends.ts';
import { METADATA } from '../payments/frozen-request.ts';
import { LookupFailed, type PaymentIntentFacts } from '../payments/gateway.ts';
import type { ActivityDeps } from './deps.ts';
import { readFacts, settledBefore, type ChargeOrder } from './charge.ts';
import { stop, tryAgain } from './errors.ts';
import { readIntent } from './read-intent.ts';

/** Clocks of ours and Stripe's may differ; a list by creation time starts this much before the first send. */
const LIST_MARGIN_SECONDS = 5 * 60;

/**
 * Asks Stripe what became of a slot's current generation, by reads only: the PaymentIntent when its id
 * is known, else the customer's intents since the first send, matched by metadata, amount and currency.
 * A look-up that fails is tried again and never read as "not there". Safe to run any number of times.
 */
export async function reconcile(deps: ActivityDeps, order: ChargeOrder): Promise<ReconcileAnswer> {
  const facts = await readFacts(deps, order);
  const known = settledBefore(facts, order.generation);
  if (known !== null) return { kind: 'settled', charge: known };
  if (facts.paymentIntentId === null && !facts.create.sentBefore) {
    return { kind: 'resumable', generation: facts.generation };
  }
  try {
    if (facts.paymentIntentId !== null) {
      return answerFor(facts, await deps.gateway.retrievePaymentIntent(facts.paymentIntentId));
    }
    return await findByMetadata(deps, order, facts);
  } catch (error) {
    if (!(error instanceof LookupFailed)) throw error;
    throw tryAgain(FAILURES.chargeIndeterminate, error.message);
  }
}

async function findByMetadata(
  deps: ActivityDeps,
  order: ChargeOrder,
  facts: ChargeFacts,
): Promise<ReconcileAnswer> {
  const since = facts.create.firstSentAt;
  if (since === null) return { kind: 'resumable', generation: facts.generation };
  const listed = await deps.gateway.listPaymentIntents({
    customer: facts.stripeCustomerId,
    createdGte: Math.floor(since.getTime() / 1000) - LIST_MARGIN_SECONDS,
  });
  const ours = listed.filter(
    (intent) =>
      intent.metadata[METADATA.key] === facts.create.key &&
      intent.amountMinor === facts.amountMinor &&
      intent.currency === facts.currency,
  );
  const [found, ...others] = ours;
  if (found === undefined) {
    // Inside the window the same key is safe: it creates, or brings the reply that was lost.
    if (facts.create.windowOpen) return { kind: 'resumable', generation: facts.generation };
    return { kind: 'unknown', reason: 'not_found_and_key_older_than_23_h' };
  }
  if (others.length > 0) {
    throw stop(
      FAILURES.invariantBroken,
      `several PaymentIntents carry the key of ${order.customerId}`,
    );
  }
  await adoptIntent(deps, order, found);
  return answerFor(facts, found);
}

/** Keeps the id of an intent whose create reply was lost, so that it is confirmed and none other made. */
async function adoptIntent(
  deps: ActivityDeps,
  order: ChargeOrder,
  found: PaymentIntentFacts,
): Promise<void> {
  await deps.db
    .updateTable('billing_charges')
    .set({ payment_intent_id: found.id, updated_at: sql`now()` })
    .where('namespace', '=', order.namespace)
    .where('period', '=', order.period)
    .where('customer_id', '=', order.customerId)
    .where('generation', '=', order.generation)
    .where('state', 'in', ['claimed', 'sent', 'indeterminate'])
    .where('payment_intent_id', 'is', null)
    .execute();
}

function answerFor(facts: ChargeFacts, intent: PaymentIntentFacts): ReconcileAnswer {
  const reading = readIntent(facts, intent);
  switch (reading.kind) {
    case 'settled': {
      if (reading.outcome.outcome === 'indeterminate') {
        return { kind: 'unknown', reason: reading.outcome.reason };
      }
      const charge: ChargeResult = {
        generation: facts.generation,
        result: reading.outcome,
        answer: null,
      };
      return { kind: 'settled', charge };
    }
    case 'confirmNotDone':
    case 'ambiguous':
      if (facts.confirm.windowOpen) return { kind: 'resumable', generation: facts.generation };
      return { kind: 'unknown', reason: 'key_older_than_23_h' };
  }
}
