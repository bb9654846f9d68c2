import { randomUUID } from 'node:crypto';
import type { Socket } from 'node:net';
import pRetry from 'p-retry';
import type { Shop } from '../../harness/exhibit.ts';
import { paymentOf, stripeOf, TRIES } from '../../harness/payments.ts';

/** Charges everybody and reports it to accounting, no faster than accounting reads. */
export function billInStep(shop: Shop, accounting: Socket): void {
  const stripe = stripeOf(shop);
  const due = new Set(shop.customers);
  const bill = async (): Promise<void> => {
    for (const customer of due) {
      // One key for all tries of this charge.
      const idempotencyKey = randomUUID();
      const intent = await pRetry(
        () => stripe.paymentIntents.create(paymentOf(customer), { idempotencyKey }),
        TRIES,
      );
      // Only now: nobody is forgotten when something fails above.
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
