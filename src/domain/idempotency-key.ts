// oxlint-disable-next-line no-restricted-imports -- hashing is pure; workflow code never makes a key (its sandbox has no node:crypto)
import { createHash } from 'node:crypto';
import type { BillingPeriod } from './billing-period.ts';
import type { CustomerId } from './customer-id.ts';
import type { BillingNamespace } from './namespace.ts';

/** What an idempotency key is stored as and sent as. Only {@link idempotencyKey} and {@link refundKey} make one. */
export type IdempotencyKey = string & { readonly __brand: 'IdempotencyKey' };

export type ChargeOperation = 'create' | 'confirm';

export interface IdempotencyKeyParts {
  readonly account: string;
  readonly mode: 'test' | 'live';
  readonly namespace: BillingNamespace;
  readonly customerId: CustomerId;
  readonly period: BillingPeriod;
  readonly operation: ChargeOperation;
  readonly generation: number;
}

/**
 * The key under which Stripe knows one operation of one generation of one slot. A pure function of
 * the business: no clock, attempt, process or random value, so that whoever charges the slot, and
 * whenever, sends the same key. Each part is framed by its length in bytes, because parts joined by
 * a separator let two customers share a key.
 */
export function idempotencyKey(parts: IdempotencyKeyParts): IdempotencyKey {
  const hash = hashOfParts([
    'chargeonce',
    'v1',
    parts.account,
    parts.mode,
    parts.namespace,
    parts.customerId,
    parts.period,
    parts.operation,
    String(parts.generation),
  ]);
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the constructor of the brand
  return `bill.v1.${hash}` as IdempotencyKey;
}

export interface RefundKeyParts {
  readonly account: string;
  readonly mode: 'test' | 'live';
  readonly chargeId: string;
  /** which order to give back this is: two refunds of one charge are two lines */
  readonly planId: number;
  readonly line: number;
}

/**
 * The key under which Stripe knows one line of a refund plan. Never of the amount: two refunds of the
 * same sum on one charge are two orders, and one order sent again is one.
 */
export function refundKey(parts: RefundKeyParts): IdempotencyKey {
  const hash = hashOfParts([
    'chargeonce',
    'v1',
    parts.account,
    parts.mode,
    'refund',
    parts.chargeId,
    String(parts.planId),
    String(parts.line),
  ]);
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the constructor of the brand
  return `refund.v1.${hash}` as IdempotencyKey;
}

function hashOfParts(parts: readonly string[]): string {
  const framed = parts.map((part) => `${new TextEncoder().encode(part).length}:${part},`).join('');
  return createHash('sha256').update(framed).digest('hex');
}

/**
 * The recipe of the home-grown jobs this project replaces, kept to take over their pending rows and
 * for the failure gallery. Joined by ":", so different inputs can collide: never used for a new key.
 */
export function legacyStableKey(customer: string, period: string, vendorNamespace: string): string {
  const joined = `${customer}:${period}:${vendorNamespace}`;
  return createHash('sha256').update(joined).digest('hex').slice(0, 32);
}
