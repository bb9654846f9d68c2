import type { Customer } from '../harness/exhibit.ts';

/** The body of `POST /v1/payment_intents` that creates and confirms in one, off-session. */
export function paymentForm(customer: Customer): URLSearchParams {
  return new URLSearchParams({
    amount: String(customer.amountMinor),
    currency: customer.currency,
    customer: customer.stripeCustomer,
    payment_method: customer.paymentMethod,
    off_session: 'true',
    confirm: 'true',
  });
}
