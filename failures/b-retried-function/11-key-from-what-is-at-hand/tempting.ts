import pRetry from 'p-retry';
import type { Customer, Shop } from '../../harness/exhibit.ts';
import { Connection } from './connection.ts';

interface Attempt {
  readonly customer: Customer;
  readonly connection: Connection;
  readonly order: object;
}

const numbers = new WeakMap<object, number>();
let objects = 0;
/** What `System.identityHashCode` is elsewhere: the number of an object. */
function identityOf(object: object): number {
  const number = numbers.get(object) ?? (objects += 1);
  numbers.set(object, number);
  return number;
}

/** Four teams, and what each had at hand that is surely unique. */
const KEYS: readonly ((attempt: Attempt) => string)[] = [
  ({ customer }) => `${customer.id}-${Date.now()}`,
  ({ customer, connection }) => `${connection.session.token}-${customer.id}`,
  ({ connection }) => `${connection.id}-${connection.sent}`,
  ({ customer, order }) => `${customer.id}-${identityOf(order)}`,
];

export async function billEverybody(shop: Shop): Promise<void> {
  for (const [at, customer] of shop.customers.entries()) {
    const keyOf = KEYS[at % KEYS.length] ?? (() => customer.id);
    await pRetry(
      async () => {
        const connection = new Connection(shop);
        const order = { customer, period: shop.period };
        try {
          await connection.charge(customer, keyOf({ customer, connection, order }));
        } finally {
          await connection.close();
        }
      },
      { retries: 3, minTimeout: 10 },
    );
  }
}
