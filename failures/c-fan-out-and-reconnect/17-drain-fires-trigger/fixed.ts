import type { Socket } from 'node:net';
import pRetry from 'p-retry';
import type { Shop } from '../../harness/exhibit.ts';
import { stableKey } from '../../harness/stable-key.ts';
import { paymentOf, stripeOf, TRIES } from '../../harness/payments.ts';

/** The same, however often it is told to go on. */
export function billInStep(shop: Shop, accounting: Socket): void {
  const stripe = stripeOf(shop);
  const due = new Set(shop.customers);
  const bill = async (): Promise<void> => {
    for (const customer of due) {
      // One key for this charge, whichever 'drain' has led to it.
      const idempotencyKey = stableKey('create', customer.id, shop.period);
      const intent = await pRetry(
        () => stripe.paymentIntents.create(paymentOf(customer), { idempotencyKey }),
        TRIES,
      );
      due.delete(customer);
      if (!accounting.write(`${customer.id} ${intent.id}\n`)) return; // 'drain' goes on
    }
  };
  const go = (): void => {
    bill().catch((error: Error) => accounting.destroy(error));
  };
  accounting.on('drain', go);
  go();
}
