import pRetry from 'p-retry';
import type { Shop } from '../../harness/exhibit.ts';
import { stableKey } from '../../harness/stable-key.ts';
import { Connection } from './connection.ts';

export async function billEverybody(shop: Shop): Promise<void> {
  for (const customer of shop.customers) {
    await pRetry(
      async () => {
        const connection = new Connection(shop);
        try {
          await connection.charge(customer, stableKey('create', customer.id, shop.period));
        } finally {
          await connection.close();
        }
      },
      { retries: 3, minTimeout: 10 },
    );
  }
}
