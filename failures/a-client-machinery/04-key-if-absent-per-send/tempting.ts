import { randomUUID } from 'node:crypto';
import pRetry from 'p-retry';
import type { Shop } from '../../harness/exhibit.ts';
import { chargeForm } from '../../harness/payment-form.ts';

type Send = (url: string, init: RequestInit) => Promise<Response>;

/** Gives a key to each POST that has none, and never changes the caller's request. */
function withIdempotencyKey(next: Send): Send {
  return (url, init) => {
    const headers = new Headers(init.headers);
    if (init.method === 'POST' && !headers.has('Idempotency-Key'))
      headers.set('Idempotency-Key', randomUUID());
    return next(url, { ...init, headers });
  };
}

function withRetry(next: Send): Send {
  return (url, init) => pRetry(() => next(url, init), { retries: 3, minTimeout: 10 });
}

const send = withRetry(withIdempotencyKey(fetch));

export async function billEverybody(shop: Shop): Promise<void> {
  for (const customer of shop.customers) {
    const response = await send(`${shop.stripeUrl}/v1/payment_intents`, {
      method: 'POST',
      headers: {
        Authorization: `Bearer ${shop.apiKey}`,
        'Content-Type': 'application/x-www-form-urlencoded',
      },
      body: chargeForm(customer),
    });
    if (!response.ok) throw new Error(await response.text());
  }
}
