import { Agent, interceptors, request, type Dispatcher } from 'undici';
import type { Shop } from '../../harness/exhibit.ts';
import { stableKey } from '../../harness/stable-key.ts';
import { chargeForm } from '../../harness/payment-form.ts';

/** Signs at the wire, for each hop, with what it was given. It makes nothing up. */
function signed(apiKey: string, idempotencyKey: string): Dispatcher.DispatcherComposeInterceptor {
  return (dispatch) => (options, handler) => {
    const headers = {
      Authorization: `Bearer ${apiKey}`,
      'Content-Type': 'application/x-www-form-urlencoded',
      'Idempotency-Key': idempotencyKey,
    };
    return dispatch({ ...options, headers }, handler);
  };
}

export async function billEverybody(shop: Shop): Promise<void> {
  const agent = new Agent();
  for (const customer of shop.customers) {
    const key = stableKey('create', customer.id, shop.period);
    const { statusCode, body } = await request(`${shop.stripeUrl}/v1/payment_intents`, {
      dispatcher: agent.compose(
        signed(shop.apiKey, key),
        interceptors.redirect({ maxRedirections: 3 }),
      ),
      method: 'POST',
      body: chargeForm(customer),
    });
    const answer = await body.text();
    if (statusCode !== 200) throw new Error(answer);
  }
  await agent.close();
}
