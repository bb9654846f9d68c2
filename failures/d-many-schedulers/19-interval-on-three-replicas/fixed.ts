import { schedule, type ScheduledTask } from 'node-cron';
import pRetry from 'p-retry';
import type { Shop } from '../../harness/exhibit.ts';
import { stableKey } from '../../harness/stable-key.ts';
import { paymentOf, stripeOf, TRIES } from '../../harness/payments.ts';

/** The same timer on every replica; all of them ask for the same charge. */
export function scheduleBilling(shop: Shop, expression = '0 3 1 * *'): ScheduledTask {
  const stripe = stripeOf(shop);
  const bill = async (): Promise<void> => {
    for (const customer of shop.customers) {
      // One key for this charge, whichever replica makes it.
      const idempotencyKey = stableKey('create', customer.id, shop.period);
      await pRetry(
        () => stripe.paymentIntents.create(paymentOf(customer), { idempotencyKey }),
        TRIES,
      );
    }
  };
  return schedule(expression, bill, { name: 'billing', timezone: 'UTC', noOverlap: true });
}
