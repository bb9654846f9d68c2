import { randomUUID } from 'node:crypto';
import pRetry from 'p-retry';
import type { Customer, Shop } from '../../harness/exhibit.ts';
import { paymentForm } from '../../harness/payment-form.ts';

/** One call, one key. */
async function charge(shop: Shop, customer: Customer): Promise<void> {
  const response = await fetch(`${shop.stripeUrl}/v1/payment_intents`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${shop.apiKey}`, 'Idempotency-Key': randomUUID() },
    body: paymentForm(customer),
  });
  if (!response.ok) throw new Error(`Stripe answered ${response.status}`);
}

/** Rejects when the work takes too long. */
function within<T>(work: Promise<T>, ms: number): Promise<T> {
  const late = new Promise<never>((_resolve, reject) => {
    setTimeout(() => reject(new Error(`no answer after ${ms} ms`)), ms).unref();
  });
  return Promise.race([work, late]);
}

export async function billEverybody(shop: Shop, patienceMs = 10_000): Promise<void> {
  for (const customer of shop.customers) {
    await pRetry(() => within(charge(shop, customer), patienceMs), { retries: 3, minTimeout: 10 });
  }
}
