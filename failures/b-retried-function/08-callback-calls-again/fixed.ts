import http from 'node:http';
import { promisify } from 'node:util';
import type { Customer, Shop } from '../../harness/exhibit.ts';
import { stableKey } from '../../harness/stable-key.ts';
import { paymentForm } from '../../harness/payment-form.ts';

type Done = (error: Error | null) => void;

class Charges {
  readonly #shop: Shop;
  #resends = 5;

  constructor(shop: Shop) {
    this.#shop = shop;
  }

  charge(customer: Customer, done: Done): void {
    const request = http.request(`${this.#shop.stripeUrl}/v1/payment_intents`, {
      method: 'POST',
      headers: {
        Authorization: `Bearer ${this.#shop.apiKey}`,
        'Content-Type': 'application/x-www-form-urlencoded',
        'Idempotency-Key': stableKey('create', customer.id, this.#shop.period),
      },
    });
    request.on('response', (response) => {
      response.resume();
      const refused = response.statusCode !== 200;
      response.on('end', () => done(refused ? new Error('Stripe refused the charge') : null));
    });
    request.on('error', (error) => {
      if (this.#resends === 0) return done(error);
      this.#resends -= 1;
      this.charge(customer, done);
    });
    request.end(paymentForm(customer).toString());
  }
}

export async function billEverybody(shop: Shop): Promise<void> {
  const charges = new Charges(shop);
  const charge = promisify((customer: Customer, done: Done) => charges.charge(customer, done));
  for (const customer of shop.customers) await charge(customer);
}
