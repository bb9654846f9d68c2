import type { Customer, Shop } from '../../harness/exhibit.ts';
import { stableKey } from '../../harness/stable-key.ts';
import { paymentForm } from '../../harness/payment-form.ts';

/** One object for the whole process, and nothing in it that belongs to one customer. */
class ChargeHandler {
  readonly #shop: Shop;

  constructor(shop: Shop) {
    this.#shop = shop;
  }

  async handle(customer: Customer): Promise<void> {
    await this.#requireCard(customer);
    await this.#charge(customer, stableKey('create', customer.id, this.#shop.period));
  }

  async #requireCard(customer: Customer): Promise<void> {
    const { stripeUrl, apiKey } = this.#shop;
    const response = await fetch(`${stripeUrl}/v1/payment_methods/${customer.paymentMethod}`, {
      headers: { Authorization: `Bearer ${apiKey}` },
    });
    if (!response.ok) throw new Error(`${customer.id} has no card`);
  }

  async #charge(customer: Customer, idempotencyKey: string): Promise<void> {
    const { stripeUrl, apiKey } = this.#shop;
    const response = await fetch(`${stripeUrl}/v1/payment_intents`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${apiKey}`, 'Idempotency-Key': idempotencyKey },
      body: paymentForm(customer),
    });
    if (!response.ok) throw new Error(`Stripe answered ${response.status}`);
  }
}

export async function billEverybody(shop: Shop): Promise<void> {
  const handler = new ChargeHandler(shop);
  await Promise.allSettled(shop.customers.map((customer) => handler.handle(customer)));
}
