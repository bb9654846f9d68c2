import { createHash, randomBytes, randomUUID } from 'node:crypto';
import type { KeyOrder } from '../../src/db/vault-keys.ts';
import type { BeginOrder, FinishOrder } from '../../src/db/vault-ledger.ts';

export const ACCOUNT = 'acct_vault';

/** A key's parts with room for `capMinor` usd; every call gives another key. */
export function keyOrder(capMinor: number, parts: Partial<KeyOrder> = {}): KeyOrder {
  return {
    keyId: randomBytes(8).toString('hex'),
    secretHash: randomBytes(32),
    account: ACCOUNT,
    liveMode: false,
    capBasis: 'total',
    namespace: null,
    period: null,
    allowedEndpoints: ['POST /v1/payment_intents'],
    expiresAt: new Date(Date.now() + 3_600_000),
    caps: [{ currency: 'usd', capMinor, expectedMinor: null }],
    actor: 'test',
    ...parts,
  };
}

const hashOf = (text: string): Buffer => createHash('sha256').update(text).digest();

/** A create of 10 usd under this idempotency key; the bytes follow from path, sum and currency. */
export function createOf(
  keyId: string,
  idempotencyKey: string,
  parts: Partial<BeginOrder> = {},
): BeginOrder {
  const { path = '/v1/payment_intents', amountMinor = 10, currency = 'usd' } = parts;
  return {
    requestId: randomUUID(),
    keyId,
    account: ACCOUNT,
    liveMode: false,
    kind: 'create',
    method: 'POST',
    path,
    idempotencyKey,
    attemptId: null,
    requestHash: hashOf(`${path} ${amountMinor} ${currency}`),
    amountMinor,
    currency,
    objectId: null,
    stripeCustomer: 'cus_1',
    marks: hashOf(idempotencyKey),
    namespace: null,
    period: null,
    customerId: null,
    ...parts,
  };
}

/** A confirm of this intent under its own idempotency key. */
export function confirmOf(keyId: string, objectId: string, idempotencyKey: string): BeginOrder {
  const path = `/v1/payment_intents/${objectId}/confirm`;
  return createOf(keyId, idempotencyKey, {
    kind: 'confirm',
    path,
    requestHash: hashOf(path),
    amountMinor: null,
    currency: null,
    objectId,
  });
}

/** What a lost reply means; the rest by parts. */
export function finishOf(requestId: string, parts: Partial<FinishOrder> = {}): FinishOrder {
  return {
    requestId,
    status: 200,
    error: null,
    stripeRequestId: 'req_1',
    replayed: false,
    durationMs: 1,
    resolves: 'key',
    to: 'held',
    reason: 'requires_confirmation',
    objectId: null,
    ...parts,
  };
}

/** No answer came: nobody knows. */
export const LOST = {
  status: null,
  error: 'socket hang up',
  resolves: 'nothing',
  to: 'held',
  reason: 'no_answer',
} as const satisfies Partial<FinishOrder>;

/** Stripe's definite no. */
export const DECLINED = {
  status: 402,
  resolves: 'key',
  to: 'released',
  reason: 'card_declined',
} as const satisfies Partial<FinishOrder>;

export const SUCCEEDED = {
  resolves: 'key',
  to: 'spent',
  reason: 'succeeded',
} as const satisfies Partial<FinishOrder>;
