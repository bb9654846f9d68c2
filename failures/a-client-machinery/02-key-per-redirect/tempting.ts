import { randomUUID } from 'node:crypto';
import { Agent, interceptors, request, type Dispatcher } from 'undici';
import type { Shop } from '../../harness/exhibit.ts';
import { chargeForm } from '../../harness/payment-form.ts';

/** Signs at the wire: undici drops Authorization when a redirect leads to another host. */
function signed(apiKey: string): Dispatcher.DispatcherComposeInterceptor {
  return (dispatch) => (options, handler) => {
    const headers = {
      Authorization: `Bearer ${apiKey}`,
      'Content-Type': 'application/x-www-form-urlencoded',
      'Idempotency-Key': randomUUID(),
    };
    return dispatch({ ...options, headers }, handler);
  };
}

export async function billEverybody(shop: Shop): Promise<void> {
  const gateway = new Agent().compose(
    signed(shop.apiKey),
    interceptors.redirect({ maxRedirections: 3 }),
  );
  for (const customer of shop.customers) {
    const { statusCode, body } = await request(`${shop.stripeUrl}/v1/payment_intents`, {
      dispatcher: gateway,
      method: 'POST',
      body: chargeForm(customer),
    });
    const answer = await body.text();
    if (statusCode !== 200) throw new Error(answer);
  }
  await gateway.close();
}
