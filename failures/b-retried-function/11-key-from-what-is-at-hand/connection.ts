import { randomUUID } from 'node:crypto';
import { Client } from 'undici';
import type { Customer, Shop } from '../../harness/exhibit.ts';
import { paymentForm } from '../../harness/payment-form.ts';

/** One connection to Stripe. When it breaks, the next one takes its place. */
export class Connection {
  readonly id = randomUUID();
  readonly session = { token: randomUUID() };
  sent = 0;
  readonly #client: Client;
  readonly #apiKey: string;

  constructor(shop: Shop) {
    this.#client = new Client(shop.stripeUrl);
    this.#apiKey = shop.apiKey;
  }

  async charge(customer: Customer, idempotencyKey: string): Promise<void> {
    this.sent += 1;
    const { statusCode, body } = await this.#client.request({
      method: 'POST',
      path: '/v1/payment_intents',
      headers: {
        authorization: `Bearer ${this.#apiKey}`,
        'content-type': 'application/x-www-form-urlencoded',
        'idempotency-key': idempotencyKey,
      },
      body: paymentForm(customer).toString(),
    });
    await body.dump();
    if (statusCode !== 200) throw new Error(`Stripe answered ${statusCode}`);
  }

  async close(): Promise<void> {
    await this.#client.destroy();
  }
}
