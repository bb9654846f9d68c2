import { schedule, type ScheduledTask } from 'node-cron';
import pRetry from 'p-retry';
import type { Shop } from '../../harness/exhibit.ts';
import { stableKey } from '../../harness/stable-key.ts';
import { paymentOf, stripeOf, TRIES } from '../../harness/payments.ts';

/** In the application, as it has always been. */
export function startTimer(shop: Shop, expression = '0 3 1 * *'): ScheduledTask {
  return schedule(expression, () => billEverybody(shop), { timezone: 'UTC', noOverlap: true });
}

/** In the image of the CronJob. */
export async function runCronJob(shop: Shop): Promise<void> {
  await billEverybody(shop);
}

/** Whatever has started it, it asks for the same charges. */
async function billEverybody(shop: Shop): Promise<void> {
  const stripe = stripeOf(shop);
  for (const customer of shop.customers) {
    const idempotencyKey = stableKey('create', customer.id, shop.period);
    await pRetry(
      () => stripe.paymentIntents.create(paymentOf(customer), { idempotencyKey }),
      TRIES,
    );
  }
}
