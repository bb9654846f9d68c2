import pRetry from 'p-retry';
import type { Customer, Shop } from '../../harness/exhibit.ts';
import { stableKey } from '../../harness/stable-key.ts';
import { paymentForm } from '../../harness/payment-form.ts';

/** However often it is called: one key. */
async function charge(shop: Shop, customer: Customer): Promise<void> {
  const idempotencyKey = stableKey('create', customer.id, shop.period);
  const response = await fetch(`${shop.stripeUrl}/v1/payment_intents`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${shop.apiKey}`, 'Idempotency-Key': idempotencyKey },
    body: paymentForm(customer),
  });
  if (!response.ok) throw new Error(`Stripe answered ${response.status}`);
}

/** Rejects when the work takes too long, which goes on all the same. */
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
