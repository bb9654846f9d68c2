import { randomUUID } from 'node:crypto';
import got from 'got';
import type { Customer, Shop } from '../../harness/exhibit.ts';
import { paymentForm } from '../../harness/payment-form.ts';

class ChargeCommand {
  readonly customer: Customer;
  #key: string | undefined;

  constructor(customer: Customer) {
    this.customer = customer;
  }

  /** Made when it is first asked for, and the same ever after. */
  get idempotencyKey(): string {
    this.#key ??= randomUUID();
    return this.#key;
  }
}

export async function billEverybody(shop: Shop): Promise<void> {
  const commands = shop.customers.map((customer) => new ChargeCommand(customer));
  for (const command of commands) {
    await got.post(`${shop.stripeUrl}/v1/payment_intents`, {
      headers: {
        authorization: `Bearer ${shop.apiKey}`,
        'idempotency-key': command.idempotencyKey,
      },
      form: Object.fromEntries(paymentForm(command.customer)),
      retry: { limit: 2, methods: ['POST'], backoffLimit: 20 },
    });
  }
}
