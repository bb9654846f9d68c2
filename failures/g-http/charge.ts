import { randomUUID } from 'node:crypto';
import type { Customer, Shop } from '../harness/exhibit.ts';
import { paymentOf, stripeOf } from '../harness/payments.ts';

/** The body of `POST /charges`. */
export interface Order {
  readonly customer: string;
}

/** What the handlers of this room do: each call is a charge of its own, unless its caller knows a key for it. */
export async function charge(
  shop: Shop,
  order: Order,
  idempotencyKey: string = randomUUID(),
): Promise<{ readonly payment: string }> {
  const { id } = await stripeOf(shop).paymentIntents.create(paymentOf(customerOf(shop, order)), {
    idempotencyKey,
  });
  return { payment: id };
}

function customerOf({ customers }: Shop, { customer }: Order): Customer {
  const found = customers.find(({ id }) => id === customer);
  if (found === undefined) throw new TypeError(`no customer is called ${customer}`);
  return found;
}
