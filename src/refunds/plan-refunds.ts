import { createHash } from 'node:crypto';
import { refundKey } from '../domain/idempotency-key.ts';
import { readCountedCharges, storePlan, type LineToPlan } from '../db/refund-plans.ts';
import { refundRequestBody } from '../payments/refund-gateway.ts';
import type { LabelledCharge } from './charge-label.ts';
import type { RefundDeps } from './deps.ts';
import { findDuplicates, type Duplicate, type Found } from './find-duplicates.ts';

/** Finds duplicates among charges, with our slots' word on which charge each of them counts on. Reads only. */
export async function findWithSlots(
  deps: Pick<RefundDeps, 'db'>,
  all: readonly LabelledCharge[],
): Promise<Found> {
  const counted = await readCountedCharges(deps.db, {
    charges: all.map(({ charge }) => charge.id),
    intents: all.flatMap(({ charge }) => charge.paymentIntentId ?? []),
  });
  return findDuplicates(
    all,
    ({ id, paymentIntentId }) =>
      counted.charges.has(id) || (paymentIntentId !== null && counted.intents.has(paymentIntentId)),
  );
}

/**
 * Stores what is to be given back, with a key and the bytes for each; sends nothing. The same findings
 * again are the same plan until somebody orders it. Null when there is nothing to give back.
 */
export async function planRefunds(
  deps: Pick<RefundDeps, 'db' | 'refunds' | 'account' | 'mode'>,
  duplicates: readonly Duplicate[],
  operator: string,
): Promise<number | null> {
  const lines = duplicates.flatMap(linesOf);
  if (lines.length === 0) return null;
  const { account, mode } = deps;
  return storePlan(deps.db, {
    account,
    liveMode: mode === 'live',
    operator,
    fingerprint: fingerprintOf(lines),
    lines,
    freeze({ planId, line, chargeId, amountMinor }) {
      const key = refundKey({ account, mode, chargeId, planId, line });
      const body = refundRequestBody({ chargeId, amountMinor, key, planId });
      return { key, body, apiVersion: deps.refunds.apiVersion };
    },
  });
}

function linesOf(duplicate: Duplicate): readonly LineToPlan[] {
  return duplicate.extras.map((extra) => ({
    kind: duplicate.kind,
    why: duplicate.why,
    namespace: duplicate.namespace,
    period: duplicate.period,
    customerId: duplicate.customerId,
    stripeCustomerId: duplicate.stripeCustomerId,
    chargeId: extra.chargeId,
    paymentIntentId: extra.paymentIntentId,
    keptChargeId: duplicate.kept.chargeId,
    amountMinor: extra.netMinor,
    currency: extra.currency,
    refundedBeforeMinor: extra.refundedMinor,
  }));
}

function fingerprintOf(lines: readonly LineToPlan[]): string {
  const facts = lines.map((line) => [
    line.chargeId,
    line.keptChargeId,
    line.kind,
    line.amountMinor,
    line.refundedBeforeMinor,
  ]);
  return createHash('sha256').update(JSON.stringify(facts)).digest('hex');
}
