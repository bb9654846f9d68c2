import got from 'got';
import type { Customer, Shop } from '../../harness/exhibit.ts';
import { stableKey } from '../../harness/stable-key.ts';
import { paymentForm } from '../../harness/payment-form.ts';

class ChargeCommand {
  readonly customer: Customer;
  readonly period: string;

  constructor(customer: Customer, period: string) {
    this.customer = customer;
    this.period = period;
  }

  /** The same in every object that stands for this charge. */
  get idempotencyKey(): string {
    return stableKey('create', this.customer.id, this.period);
  }
}

export async function billEverybody(shop: Shop): Promise<void> {
  const commands = shop.customers.map((customer) => new ChargeCommand(customer, shop.period));
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
