import pRetry, { AbortError } from 'p-retry';
import type { Shop } from '../../harness/exhibit.ts';
import { stableKey } from '../../harness/stable-key.ts';
import { chargeForm } from '../../harness/payment-form.ts';

type Send = (url: string, init: RequestInit) => Promise<Response>;

/** Lets no POST out that has no key. It cannot know which charge it is, so it makes none. */
function keyRequired(next: Send): Send {
  return (url, init) => {
    if (init.method === 'POST' && !new Headers(init.headers).has('Idempotency-Key'))
      throw new AbortError(`POST ${url} has no Idempotency-Key`);
    return next(url, init);
  };
}

function withRetry(next: Send): Send {
  return (url, init) => pRetry(() => next(url, init), { retries: 3, minTimeout: 10 });
}

const send = withRetry(keyRequired(fetch));

export async function billEverybody(shop: Shop): Promise<void> {
  for (const customer of shop.customers) {
    const response = await send(`${shop.stripeUrl}/v1/payment_intents`, {
      method: 'POST',
      headers: {
        Authorization: `Bearer ${shop.apiKey}`,
        'Content-Type': 'application/x-www-form-urlencoded',
        'Idempotency-Key': stableKey('create', customer.id, shop.period),
      },
      body: chargeForm(customer),
    });
    if (!response.ok) throw new Error(await response.text());
  }
}
