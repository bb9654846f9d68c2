import pRetry from 'p-retry';
import { request } from 'undici';
import type { Shop } from '../../harness/exhibit.ts';
import { stableKey } from '../../harness/stable-key.ts';
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
            // Which charge it is …
            'idempotency-key': stableKey('create', customer.id, shop.period),
            // … and, for the log, which try.
            'x-attempt-id': `${customer.id}/${shop.period}/${attempt}`,
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
