import { randomUUID } from 'node:crypto';
import axios from 'axios';
import axiosRetry, { isRetryableError } from 'axios-retry';
import type { Shop } from '../../harness/exhibit.ts';
import { chargeForm } from '../../harness/payment-form.ts';

export async function billEverybody(shop: Shop): Promise<void> {
  const stripe = axios.create({
    baseURL: shop.stripeUrl,
    headers: { Authorization: `Bearer ${shop.apiKey}` },
  });
  // All POSTs have a key, so all of them may be retried.
  stripe.interceptors.request.use((config) => {
    if (config.method === 'post') config.headers.set('Idempotency-Key', randomUUID());
    return config;
  });
  axiosRetry(stripe, { retries: 3, retryCondition: isRetryableError });
  for (const customer of shop.customers)
    await stripe.post('/v1/payment_intents', chargeForm(customer));
}
