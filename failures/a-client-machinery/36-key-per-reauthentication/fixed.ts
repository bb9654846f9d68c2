import axios from 'axios';
import type { Shop } from '../../harness/exhibit.ts';
import { stableKey } from '../../harness/stable-key.ts';
import { chargeForm } from '../../harness/payment-form.ts';

async function newToken(gatewayUrl: string): Promise<string> {
  const { data } = await axios.post<{ access_token: string }>(`${gatewayUrl}/oauth/token`);
  return data.access_token;
}

export async function billEverybody(shop: Shop): Promise<void> {
  let token = await newToken(shop.stripeUrl);
  const gateway = axios.create({ baseURL: shop.stripeUrl });
  gateway.interceptors.request.use((config) => {
    config.headers.set('Gateway-Token', token);
    return config;
  });
  gateway.interceptors.response.use(undefined, async (error: unknown) => {
    if (!axios.isAxiosError(error) || error.response?.status !== 401) throw error;
    const { config } = error;
    if (config === undefined || config.headers.has('X-Token-Renewed')) throw error;
    token = await newToken(shop.stripeUrl);
    config.headers.set('X-Token-Renewed', 'yes');
    return gateway.request(config);
  });
  for (const customer of shop.customers)
    await gateway.post('/v1/payment_intents', chargeForm(customer), {
      headers: {
        Authorization: `Bearer ${shop.apiKey}`,
        'Idempotency-Key': stableKey('create', customer.id, shop.period),
      },
    });
}
