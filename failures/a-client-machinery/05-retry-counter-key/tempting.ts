import pRetry from 'p-retry';
import { request } from 'undici';
import type { Shop } from '../../harness/exhibit.ts';
import { chargeForm } from '../../harness/payment-form.ts';

export async function billEverybody(shop: Shop): Promise<void> {
  for (const customer of shop.customers) {
    await pRetry(
      async (attempt) => {
        const { statusCode, body } = await request(`${shop.stripeUrl}/v1/payment_intents`, {
          method: 'POST',
          headers: {
            authorization: `Bearer ${shop.apiKey}`,
            'content-type': 'application/x-www-form-urlencoded',
            // Says in Stripe's log which customer, which month and which try it is.
            'idempotency-key': `${customer.id}/${shop.period}/${attempt}`,
          },
          body: chargeForm(customer),
        });
        const answer = await body.text();
        if (statusCode !== 200) throw new Error(answer);
      },
      { retries: 3, minTimeout: 10 },
    );
  }
}
