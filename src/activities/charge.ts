import { randomUUID } from 'node:crypto';
import {
  CAP_EXCEEDED,
  type AttemptAnswer,
  type ChargeOutcome,
  type ChargeResult,
} from '../domain/charge.ts';
import { FAILURES } from '../domain/failures.ts';
import type { SlotRef } from '../domain/ids.ts';
import {
  keepIntentAndStartConfirm,
  readChargeFacts,
  recordAnswer,
  startResend,
  startSend,
  type AttemptStart,
  type ChargeFacts,
  type StartedSend,
} from '../db/sends.ts';
import { classifyRefusal, neverReachedStripe } from '../payments/classify.ts';
import {
  LookupFailed,
  type FrozenSend,
  type PaymentIntentFacts,
  type Refusal,
  type SendReply,
} from '../payments/gateway.ts';
import type { ActivityDeps } from './deps.ts';
import { stop, tryAgain } from './errors.ts';
import { indeterminate, mismatchOf, readIntent, type ConfirmKnown } from './read-intent.ts';

export interface ChargeOrder extends SlotRef {
  readonly generation: number;
}

/** One run of the charge activity: what it works with and for which slot. */
interface Charging {
  readonly deps: ActivityDeps;
  readonly slot: SlotRef;
  readonly facts: ChargeFacts;
  readonly activityAttempt: number;
}

/**
 * Brings one slot's current generation to Stripe: create, persist the PaymentIntent, confirm. Returns
 * what Stripe answered; throws only "try again, same key". Twice, or overlapping with its own zombie:
 * the same keys and bytes go out, and what was sent before is looked up first.
 */
export async function charge(
  deps: ActivityDeps,
  order: ChargeOrder,
  activityAttempt: number,
): Promise<ChargeResult> {
  const facts = await readFacts(deps, order);
  const known = settledBefore(facts, order.generation);
  if (known !== null) return known;
  const charging: Charging = { deps, slot: order, facts, activityAttempt };
  await deps.pace();
  if (facts.paymentIntentId === null) return createThenConfirm(charging);
  if (facts.confirm.sentBefore) {
    const looked = await lookFirst(charging, facts.paymentIntentId);
    if (looked !== null) return { generation: facts.generation, result: looked, answer: null };
  }
  const attempt = newAttempt(charging);
  const started = await startSend(deps.db, order, {
    key: facts.confirm.key,
    generation: facts.generation,
    attempt,
  });
  if (started === null) return refusedToSend(charging);
  return confirm(charging, facts.paymentIntentId, { started, attempt });
}

export async function readFacts(deps: ActivityDeps, slot: SlotRef): Promise<ChargeFacts> {
  const facts = await readChargeFacts(deps.db, slot);
  if (facts !== null) return facts;
  throw stop(
    FAILURES.invariantBroken,
    `${slot.customerId} has no slot to charge in ${slot.period}`,
  );
}

/** The result when the row already has an answer, or when the order is for another generation. */
export function settledBefore(facts: ChargeFacts, generation: number): ChargeResult | null {
  if (facts.state === 'charged' && facts.paymentIntentId !== null && facts.chargeId !== null) {
    const { paymentIntentId, chargeId, amountMinor, currency } = facts;
    const result: ChargeOutcome = {
      outcome: 'charged',
      paymentIntentId,
      chargeId,
      amountMinor,
      currency,
    };
    return { generation: facts.generation, result, answer: null };
  }
  if (facts.generation !== generation) {
    throw stop(
      FAILURES.invariantBroken,
      `ordered to charge generation ${generation}, but the slot is at ${facts.generation}`,
    );
  }
  const reason = facts.reason ?? 'unknown';
  if (facts.state === 'declined') {
    const result: ChargeOutcome = {
      outcome: 'declined',
      paymentIntentId: facts.paymentIntentId,
      declinedChargeId: null,
      reason,
      advice: '',
    };
    return { generation, result, answer: null };
  }
  if (facts.state === 'misconfigured') {
    const result: ChargeOutcome = { outcome: 'misconfigured', reason, advice: '', stopsRun: false };
    return { generation, result, answer: null };
  }
  return null;
}

async function createThenConfirm(charging: Charging): Promise<ChargeResult> {
  const { deps, slot, facts } = charging;
  const attempt = newAttempt(charging);
  await deps.crashPoint('beforeCreateSent', slot);
  const { generation } = facts;
  const started = await startSend(deps.db, slot, { key: facts.create.key, generation, attempt });
  if (started === null) return refusedToSend(charging);
  const reply = await deps.gateway.createPaymentIntent(
    frozenSend(charging, facts.create.key, { started, attempt }),
  );
  await deps.crashPoint('afterCreateReply', slot);
  if (reply.kind !== 'intent') {
    const unresolvedBefore = facts.create.sentBefore || wasResent(reply, attempt);
    return readRefusedSend(charging, reply, { unresolvedBefore });
  }
  const mismatch = mismatchOf(facts, reply.intent);
  if (mismatch !== null) return result(charging, indeterminate(mismatch), reply.answer);
  return keepThenConfirm(charging, reply.intent, reply.answer);
}

async function keepThenConfirm(
  charging: Charging,
  intent: PaymentIntentFacts,
  answer: AttemptAnswer,
): Promise<ChargeResult> {
  const { deps, slot, facts } = charging;
  const attempt = newAttempt(charging);
  const started = await keepIntentAndStartConfirm(deps.db, slot, {
    generation: facts.generation,
    createKey: facts.create.key,
    confirmKey: facts.confirm.key,
    paymentIntentId: intent.id,
    answer,
    attempt,
  });
  if (started === null) return refusedToSend(charging);
  await deps.crashPoint('afterIntentCommitted', slot);
  return confirm(charging, intent.id, { started, attempt });
}

interface Sending {
  readonly started: StartedSend;
  readonly attempt: AttemptStart;
}

async function confirm(
  charging: Charging,
  paymentIntentId: string,
  sending: Sending,
): Promise<ChargeResult> {
  const { deps, facts } = charging;
  const reply = await deps.gateway.confirmPaymentIntent(
    paymentIntentId,
    frozenSend(charging, facts.confirm.key, sending),
  );
  await deps.crashPoint('afterConfirmReply', charging.slot);
  const confirmed: Charging = { ...charging, facts: { ...facts, paymentIntentId } };
  if (reply.kind !== 'intent') {
    const unresolvedBefore = facts.confirm.sentBefore || wasResent(reply, sending.attempt);
    return readRefusedSend(confirmed, reply, { unresolvedBefore });
  }
  if (reply.intent.status === 'succeeded') {
    const reading = readIntent(confirmed.facts, reply.intent);
    if (reading.kind === 'settled') return result(confirmed, reading.outcome, reply.answer);
  }
  // A saved reply shows the status of then; only a retrieve shows the present one.
  await recordAnswer(deps.db, reply.answer);
  const looked = await lookFirst(confirmed, paymentIntentId, { tookEffect: true });
  return result(confirmed, looked ?? indeterminate(reply.intent.status), null);
}

/** What Stripe shows now. Null: the key of the confirm may be sent. A failing look-up sends nothing. */
async function lookFirst(
  charging: Charging,
  paymentIntentId: string,
  confirm?: ConfirmKnown,
): Promise<ChargeOutcome | null> {
  try {
    return await look(charging, paymentIntentId, confirm);
  } catch (error) {
    if (!(error instanceof LookupFailed)) throw error;
    throw tryAgain(FAILURES.chargeIndeterminate, error.message);
  }
}

async function look(
  { deps, facts }: Charging,
  paymentIntentId: string,
  confirm?: ConfirmKnown,
): Promise<ChargeOutcome | null> {
  const intent = await deps.gateway.retrievePaymentIntent(paymentIntentId);
  const reading = readIntent(facts, intent, confirm);
  return reading.kind === 'settled' ? reading.outcome : null;
}

/**
 * A 401 came to the confirm. When the key is wrong, Stripe refuses the look as well, and there is nothing to wait for: null.
 * When it answers, the 401 was somebody else's, perhaps a gateway's that spoke after Stripe had charged.
 */
async function lookDespiteRefusedKey(
  charging: Charging,
  paymentIntentId: string,
): Promise<ChargeOutcome | null> {
  try {
    return await look(charging, paymentIntentId);
  } catch (error) {
    if (error instanceof LookupFailed) return null;
    throw error;
  }
}

/** Nothing may be sent: the row has moved on, or the key is too old to be safe. */
async function refusedToSend(charging: Charging): Promise<ChargeResult> {
  const facts = await readFacts(charging.deps, charging.slot);
  const known = settledBefore(facts, charging.facts.generation);
  if (known !== null) return known;
  return result(charging, indeterminate('key_older_than_23_h'), null);
}

/** The SDK's own resend was answered: what became of the first send is not known. */
function wasResent(reply: SendReply, attempt: AttemptStart): boolean {
  return reply.answer.attemptId !== attempt.attemptId;
}

/** A refusal or a lost reply → outcome, or "try again" when the same key can still bring the answer. */
async function readRefusedSend(
  charging: Charging,
  reply: Exclude<SendReply, { kind: 'intent' }>,
  before: { unresolvedBefore: boolean },
): Promise<ChargeResult> {
  const { db } = charging.deps;
  if (reply.kind === 'lost') {
    await recordAnswer(db, reply.answer);
    throw tryAgain(FAILURES.chargeIndeterminate, reply.reason);
  }
  const verdict = classifyRefusal(reply.refusal);
  const answer: AttemptAnswer = neverReachedStripe(reply.refusal)
    ? { ...reply.answer, neverReachedStripe: true }
    : reply.answer;
  switch (verdict.kind) {
    case 'declined':
      return result(charging, declined(charging, reply.refusal, verdict), answer);
    case 'notExecuted':
      await recordAnswer(db, answer);
      throw tryAgain(FAILURES.chargeNotExecuted, verdict.reason, verdict.retryAfterMs);
    case 'indeterminate':
      if (!verdict.sameKeyMayHelp)
        return result(charging, indeterminate(verdict.reason), reply.answer);
      await recordAnswer(db, reply.answer);
      throw tryAgain(FAILURES.chargeIndeterminate, verdict.reason);
    case 'blocked':
      // A block proves nothing about an earlier send whose answer is missing.
      if (before.unresolvedBefore) return result(charging, indeterminate(verdict.reason), answer);
      return result(
        charging,
        { outcome: 'blocked', reason: verdict.reason, advice: adviceOn(verdict.reason) },
        answer,
      );
    case 'misconfigured':
      return misconfigured(charging, { ...reply, answer }, { ...before, ...verdict });
  }
}

/**
 * A 4xx says that this request is wrong, and nothing about what went out before it. A refused confirm
 * may stand on an intent that has already succeeded, so it is looked up once.
 */
async function misconfigured(
  charging: Charging,
  reply: Extract<SendReply, { kind: 'refused' }>,
  verdict: { reason: string; stopsRun: boolean; unresolvedBefore: boolean },
): Promise<ChargeResult> {
  const { paymentIntentId } = charging.facts;
  const { reason, stopsRun, unresolvedBefore } = verdict;
  if (paymentIntentId === null) {
    if (unresolvedBefore) return result(charging, indeterminate(reason), reply.answer);
  } else {
    const { status } = reply.refusal;
    await recordAnswer(charging.deps.db, reply.answer);
    const looked = await (status === 401
      ? lookDespiteRefusedKey(charging, paymentIntentId)
      : lookFirst(charging, paymentIntentId));
    if (looked !== null && looked.outcome !== 'declined') return result(charging, looked, null);
    // Rights are checked before keys: neither says that the same key is not at work just now.
    const saysNothing = status === 401 || (status === 403 && looked === null);
    if (unresolvedBefore && saysNothing) return result(charging, indeterminate(reason), null);
  }
  const advice = reply.refusal.message?.slice(0, 300) ?? 'see the request in the Stripe dashboard';
  return result(charging, { outcome: 'misconfigured', reason, advice, stopsRun }, reply.answer);
}

/** What a refusal of the vault's calls for: room, or whatever its code names. */
function adviceOn(reason: string): string {
  return reason === CAP_EXCEEDED ? 'raise_cap' : 'mend_vault';
}

function declined(
  charging: Charging,
  refusal: Refusal,
  verdict: { reason: string; advice: string },
): ChargeOutcome {
  return {
    outcome: 'declined',
    paymentIntentId: charging.facts.paymentIntentId,
    declinedChargeId: refusal.paymentIntent?.latestCharge ?? null,
    reason: verdict.reason,
    advice: verdict.advice,
  };
}

function result(
  charging: Charging,
  outcome: ChargeOutcome,
  answer: AttemptAnswer | null,
): ChargeResult {
  return { generation: charging.facts.generation, result: outcome, answer };
}

function newAttempt(charging: Charging): AttemptStart {
  const { activityAttempt, deps } = charging;
  return { attemptId: randomUUID(), activityAttempt, worker: deps.worker };
}

function frozenSend(charging: Charging, key: string, sending: Sending): FrozenSend {
  const { deps, activityAttempt } = charging;
  return {
    idempotencyKey: key,
    body: sending.started.body,
    apiVersion: sending.started.apiVersion,
    attemptId: sending.attempt.attemptId,
    onResend: ({ attemptId, lost }) =>
      startResend(deps.db, key, {
        attempt: { attemptId, activityAttempt, worker: deps.worker },
        lost,
      }),
  };
}
