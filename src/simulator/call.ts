import type { VirtualClock } from './clock.ts';
import { badParameter, missing } from './errors.ts';
import type { Decline } from './fixtures.ts';
import { paymentMethodFixture } from './fixtures.ts';
import type { Stage } from './machine.ts';
import type { Params } from './params.ts';
import type { Expansion } from './render.ts';
import type { Store, Tenant } from './store.ts';

/** What a fault asks the execution to do differently. */
export interface Twist {
  /** A confirm answers 500 now and takes effect so many (virtual) milliseconds later. */
  readonly lateMs: number | null;
  readonly decline: Decline | null;
  /** Set by the execution that used it, so that only real faults are counted. */
  used: boolean;
}

/** One authenticated API request, as the routes see it. */
export interface Call extends Stage {
  readonly store: Store;
  readonly tenant: Tenant;
  readonly clock: VirtualClock;
  readonly params: Params;
  /** The object named in the path, or ''. */
  readonly id: string;
  readonly strictCustomers: boolean;
  readonly searchLagMs: number;
  readonly twist: Twist;
}

/**
 * An endpoint. `prepare` checks parameters: what it throws is not saved under the key. The function it returns is the
 * execution: what that returns or throws is saved.
 */
export interface Route {
  readonly method: 'GET' | 'POST' | 'DELETE';
  readonly path: string;
  readonly endpoint: string;
  /** Writes to the object of the path, and therefore holds its lock. */
  readonly locks?: boolean;
  readonly prepare: (call: Call) => () => object;
}

/** A customer parameter names one that exists; well-formed ids do, unless the simulator is strict. */
export function assertCustomerExists(
  call: Call,
  id: string,
  where: { param: string; status: 400 | 404 } = { param: 'customer', status: 400 },
): void {
  if (call.tenant.customers.get(id) !== undefined) return;
  const lazy = !call.strictCustomers && /^cus_[A-Za-z0-9_]{1,200}$/.test(id);
  if (!lazy || id.startsWith('cus_missing')) throw missing('customer', id, where);
}

/** A payment method named in a parameter exists. */
export function assertPaymentMethodExists(id: string): void {
  if (paymentMethodFixture(id) === undefined) {
    throw missing('PaymentMethod', id, { param: 'payment_method', status: 400 });
  }
}

/** Checks `expand[]` against what can be expanded; on lists every name starts with `data.`. */
export function readExpansion(call: Call, allowed: readonly string[], list = false): Expansion {
  const found = new Set<string>();
  for (const name of call.params.list('expand')) {
    const own = list ? name.replace(/^data\./, '') : name;
    if (!allowed.includes(own) || (list && own === name)) {
      throw badParameter('expand', `This property cannot be expanded (${name}).`);
    }
    found.add(own);
  }
  return found;
}

/** An optional text parameter; empty means null, as at Stripe. */
export function textOrNull(value: string | undefined): string | null {
  return value === undefined || value === '' ? null : value;
}
