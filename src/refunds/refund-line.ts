import { randomUUID } from 'node:crypto';
import type { AttemptAnswer } from '../domain/charge.ts';
import {
  recordRefund,
  startRefund,
  startRefundResend,
  type RefundOutcome,
  type StartedRefund,
} from '../db/refunds.ts';
import { readCountedCharges, type RefundLine } from '../db/refund-plans.ts';
import { constraintOf } from '../db/sqlstate.ts';
import { LookupFailed } from '../payments/gateway.ts';
import {
  REFUND_KEY_METADATA,
  type ListedCharge,
  type RefundReply,
  type RefundSeen,
} from '../payments/refund-gateway.ts';
import type { RefundDeps } from './deps.ts';

/**
 * How one line went. `taken`: another process had it first. `left`: the database refused the send, as
 * another plan or a slot speaks against it. `unknown`: a look-up failed. In all three nothing was sent.
 */
export type LineResult =
  | RefundOutcome
  | { readonly state: 'taken' }
  | { readonly state: 'left'; readonly reason: string }
  | { readonly state: 'unknown'; readonly reason: string };

export interface LineOrder {
  readonly operator: string;
  /** Stripe refuses the key: no other line needs to be tried */
  readonly onKeyRefused: () => void;
}

/**
 * Gives one charge back, once. A line that was never sent is sent only if charge and kept charge are
 * still what was planned; one that was sent before is looked up by its key first, and sent again, the
 * same bytes, only when Stripe does not have it and all else is still as planned. Twice, or by two at once: one refund.
 */
export async function refundLine(
  deps: RefundDeps,
  line: RefundLine,
  order: LineOrder,
): Promise<LineResult> {
  try {
    if (line.sentBefore) {
      const outcome = await lookUp(deps, line);
      if (outcome !== null) return await settle(deps, line, { ...order, outcome, answer: null });
    }
    const problem = await whyNot(deps, line);
    if (problem !== null) {
      const outcome = { state: stateWithout(line), reason: problem };
      return await settle(deps, line, { ...order, outcome, answer: null });
    }
    await deps.crashPoint('checked');
    return await send(deps, line, order);
  } catch (error) {
    // A look-up that did not succeed says nothing: the line stays as it is.
    if (error instanceof LookupFailed) return { state: 'unknown', reason: error.message };
    const constraint = constraintOf(error);
    if (constraint !== null && REFUSALS.has(constraint))
      return { state: 'left', reason: constraint };
    throw error;
  }
}

/** What a line becomes that is not to be sent: a send that left within a day may still arrive. */
function stateWithout(line: RefundLine): 'skipped' | 'failed' | 'indeterminate' {
  if (!line.sentBefore) return 'skipped';
  return line.sentWithinADay ? 'indeterminate' : 'failed';
}

/** What the database has against a send, by the names that docs/guarantees.md explains. */
const REFUSALS: ReadonlySet<string> = new Set([
  'slot_charge_is_never_refunded',
  'kept_charge_stays',
  'one_refund_open_per_charge',
]);

async function send(deps: RefundDeps, line: RefundLine, order: LineOrder): Promise<LineResult> {
  const attemptId = randomUUID();
  const started = await startRefund(deps.db, line, {
    which: line.sentBefore ? 'again' : 'first',
    attempt: { attemptId, worker: deps.worker },
  });
  if (started === null) return { state: 'taken' };
  await deps.crashPoint('marked');
  const reply = await sendFrozen(deps, line, { started, attemptId });
  await deps.crashPoint('answered');
  const refused = reply.kind === 'refused' ? reply.refusal.status : null;
  if (refused === 401 || refused === 403) order.onKeyRefused();
  const outcome = await outcomeOf(deps, line, reply);
  return settle(deps, line, { ...order, outcome, answer: reply.answer });
}

async function sendFrozen(
  deps: RefundDeps,
  line: RefundLine,
  { started, attemptId }: { started: StartedRefund; attemptId: string },
): Promise<RefundReply> {
  const { worker } = deps;
  return deps.refunds.createRefund({
    idempotencyKey: line.key,
    body: started.body,
    apiVersion: started.apiVersion,
    attemptId,
    onResend: (resend) =>
      startRefundResend(deps.db, line, {
        attempt: { attemptId: resend.attemptId, worker },
        lost: resend.lost,
      }),
  });
}

async function settle(
  deps: RefundDeps,
  line: RefundLine,
  end: { operator: string; outcome: RefundOutcome; answer: AttemptAnswer | null },
): Promise<LineResult> {
  const { operator, outcome, answer } = end;
  const written = await recordRefund(deps.db, line, { ...outcome, actor: operator, answer });
  await deps.crashPoint('recorded');
  return written ? outcome : { state: 'taken' };
}

/** Why a line that was never sent is not to be sent any more; null when it is as it was planned. */
async function whyNot(deps: RefundDeps, line: RefundLine): Promise<string | null> {
  const charge = await deps.refunds.readCharge(line.chargeId);
  const kept = await deps.refunds.readCharge(line.keptChargeId);
  const counted = await readCountedCharges(deps.db, {
    charges: [line.chargeId],
    intents: line.paymentIntentId === null ? [] : [line.paymentIntentId],
  });
  if (counted.charges.size + counted.intents.size > 0) return 'slot_counts_on_it';
  if (charge.id !== line.chargeId || kept.id !== line.keptChargeId)
    return 'reply_for_another_charge';
  if (charge.disputed) return 'disputed';
  if (charge.refundedMinor !== line.refundedBeforeMinor) return 'refunded_meanwhile';
  if (charge.status !== 'succeeded' || netOf(charge) !== line.amountMinor) return 'charge_changed';
  if (charge.currency !== line.currency) return 'charge_changed';
  if (kept.status !== 'succeeded' || kept.disputed || netOf(kept) <= 0)
    return 'kept_charge_is_gone';
  return null;
}

function netOf(charge: ListedCharge): number {
  return charge.capturedMinor - charge.refundedMinor;
}

/** What Stripe knows of the line's key; null when it has no such refund. */
async function lookUp(deps: RefundDeps, line: RefundLine): Promise<RefundOutcome | null> {
  const refunds = await deps.refunds.listRefunds(line.chargeId);
  const ours = refunds.find(({ metadata }) => metadata[REFUND_KEY_METADATA] === line.key);
  return ours === undefined ? null : readRefund(ours, line);
}

/**
 * What a reply means. Anything but the refund itself is looked up, because a refusal may answer a
 * repeat of something that was executed; and what is not found is unknown as long as the send may still
 * be on its way.
 */
async function outcomeOf(
  deps: RefundDeps,
  line: RefundLine,
  reply: RefundReply,
): Promise<RefundOutcome> {
  if (reply.kind === 'refund') return readRefund(reply.refund, line);
  const reason = reply.kind === 'lost' ? 'no_answer' : reasonOf(reply.refusal);
  try {
    const found = await lookUp(deps, line);
    if (found !== null) return found;
  } catch (error) {
    if (!(error instanceof LookupFailed)) throw error;
    return { state: 'indeterminate', reason };
  }
  const final = reply.kind === 'refused' && isFinal(reply.refusal);
  return { state: final ? 'failed' : 'indeterminate', reason };
}

/** Statuses after which the same key may still bring the refund, or bring the same answer for a day. */
const NOT_FINAL: ReadonlySet<number> = new Set([401, 403, 409, 424, 429]);

function isFinal({ status, type }: { status: number; type: string | null }): boolean {
  // The key was used with other parameters: something was sent under it.
  if (type === 'idempotency_error') return false;
  return status >= 400 && status < 500 && !NOT_FINAL.has(status);
}

function reasonOf(refusal: { status: number; type: string | null; code: string | null }): string {
  if (refusal.status === 401 || refusal.status === 403) return 'api_key_refused';
  if (refusal.type === 'idempotency_error') return 'idempotency_error';
  return refusal.code ?? `http_${refusal.status}`;
}

function readRefund(refund: RefundSeen, line: RefundLine): RefundOutcome {
  const mine =
    refund.chargeId === line.chargeId &&
    refund.amountMinor === line.amountMinor &&
    refund.currency === line.currency &&
    refund.metadata[REFUND_KEY_METADATA] === line.key;
  // A swapped reply: whose refund this is cannot be told from it.
  if (!mine) return { state: 'indeterminate', reason: 'reply_for_another_refund' };
  const { status } = refund;
  if (status === 'failed' || status === 'canceled') {
    return { state: 'failed', reason: `refund_${status}` };
  }
  return { state: 'refunded', refundId: refund.id, refundStatus: status };
}
