import axios from 'axios';
import axiosRetry, { isRetryableError } from 'axios-retry';
import type { Shop } from '../../harness/exhibit.ts';
import { stableKey } from '../../harness/stable-key.ts';
import { chargeForm } from '../../harness/payment-form.ts';

export async function billEverybody(shop: Shop): Promise<void> {
  const stripe = axios.create({
    baseURL: shop.stripeUrl,
    headers: { Authorization: `Bearer ${shop.apiKey}` },
  });
  axiosRetry(stripe, { retries: 3, retryCondition: isRetryableError });
  for (const customer of shop.customers)
    await stripe.post('/v1/payment_intents', chargeForm(customer), {
      headers: { 'Idempotency-Key': stableKey('create', customer.id, shop.period) },
    });
}
