import { randomUUID } from 'node:crypto';
import got from 'got';
import type { Shop } from '../../harness/exhibit.ts';
import { stableKey } from '../../harness/stable-key.ts';
import { chargeForm } from '../../harness/payment-form.ts';

export async function billEverybody(shop: Shop): Promise<void> {
  const stripe = got.extend({
    prefixUrl: shop.stripeUrl,
    headers: {
      authorization: `Bearer ${shop.apiKey}`,
      'content-type': 'application/x-www-form-urlencoded',
    },
    retry: { limit: 3, methods: ['POST'], backoffLimit: 10 },
    hooks: {
      beforeRetry: [
        ({ options }) => {
          // The old answer is what we want to hear. Only the send is new.
          options.headers['x-attempt-id'] = randomUUID();
        },
      ],
    },
  });
  for (const customer of shop.customers) {
    await stripe.post('v1/payment_intents', {
      headers: { 'idempotency-key': stableKey('create', customer.id, shop.period) },
      body: chargeForm(customer),
    });
  }
}
