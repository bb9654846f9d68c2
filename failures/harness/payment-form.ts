import type { Customer } from './exhibit.ts';

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

/** The same as it is sent: the same bytes each time. */
export function chargeForm(customer: Customer): string {
  return paymentForm(customer).toString();
}
