import { randomUUID } from 'node:crypto';
import got from 'got';
import type { Shop } from '../../harness/exhibit.ts';
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
      beforeRequest: [
        ({ headers }) => {
          // One id to find a request by, in our log, in the traces and at Stripe.
          const spanId = randomUUID();
          headers['x-request-id'] = spanId;
          headers['idempotency-key'] = spanId;
        },
      ],
    },
  });
  for (const customer of shop.customers)
    await stripe.post('v1/payment_intents', { body: chargeForm(customer) });
}
