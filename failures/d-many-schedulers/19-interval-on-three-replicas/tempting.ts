import { randomUUID } from 'node:crypto';
import { schedule, type ScheduledTask } from 'node-cron';
import pRetry from 'p-retry';
import type { Shop } from '../../harness/exhibit.ts';
import { paymentOf, stripeOf, TRIES } from '../../harness/payments.ts';

/** The billing of the application: every month, in good order, and never over itself. */
export function scheduleBilling(shop: Shop, expression = '0 3 1 * *'): ScheduledTask {
  const stripe = stripeOf(shop);
  const bill = async (): Promise<void> => {
    for (const customer of shop.customers) {
      // One key for all tries of this charge.
      const idempotencyKey = randomUUID();
      await pRetry(
        () => stripe.paymentIntents.create(paymentOf(customer), { idempotencyKey }),
        TRIES,
      );
    }
  };
  return schedule(expression, bill, { name: 'billing', timezone: 'UTC', noOverlap: true });
}
