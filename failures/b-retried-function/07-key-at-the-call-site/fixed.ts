import axios from 'axios';
import pRetry from 'p-retry';
import type { Customer, Shop } from '../../harness/exhibit.ts';
import { stableKey } from '../../harness/stable-key.ts';
import { paymentForm } from '../../harness/payment-form.ts';

/** The key is a parameter, so nobody can forget it. */
async function charge(shop: Shop, customer: Customer, idempotencyKey: string): Promise<void> {
  await axios.post(`${shop.stripeUrl}/v1/payment_intents`, paymentForm(customer), {
    headers: { Authorization: `Bearer ${shop.apiKey}`, 'Idempotency-Key': idempotencyKey },
  });
}

export async function billEverybody(shop: Shop): Promise<void> {
  for (const customer of shop.customers) {
    const idempotencyKey = stableKey('create', customer.id, shop.period);
    await pRetry(() => charge(shop, customer, idempotencyKey), { retries: 3, minTimeout: 10 });
  }
}
