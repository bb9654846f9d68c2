import type { Customer } from '../harness/exhibit.ts';

/** The body that charges a customer off-session: the same bytes each time. */
export function chargeForm(customer: Customer): string {
  return new URLSearchParams({
    amount: String(customer.amountMinor),
    currency: customer.currency,
    customer: customer.stripeCustomer,
    payment_method: customer.paymentMethod,
    off_session: 'true',
    confirm: 'true',
  }).toString();
}
