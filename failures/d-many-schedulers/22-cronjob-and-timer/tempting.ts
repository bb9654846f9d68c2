import { schedule, type ScheduledTask } from 'node-cron';
import pRetry from 'p-retry';
import type { Shop } from '../../harness/exhibit.ts';
import { paymentOf, stripeOf, TRIES } from '../../harness/payments.ts';

/** In the application, as it has always been. */
export function startTimer(shop: Shop, expression = '0 3 1 * *'): ScheduledTask {
  return schedule(expression, () => billEverybody(shop, 'billing-timer'), {
    timezone: 'UTC',
    noOverlap: true,
  });
}

/** In the image of the CronJob: `concurrencyPolicy: Forbid`, one pod a month. */
export async function runCronJob(shop: Shop): Promise<void> {
  await billEverybody(shop, 'billing-cronjob');
}

/** Run again, a job asks for the same charges again. */
async function billEverybody(shop: Shop, job: string): Promise<void> {
  const stripe = stripeOf(shop);
  for (const customer of shop.customers) {
    const idempotencyKey = `${job}-${shop.period}-${customer.id}`;
    await pRetry(
      () => stripe.paymentIntents.create(paymentOf(customer), { idempotencyKey }),
      TRIES,
    );
  }
}
