import type { IdempotencyKey } from '../domain/idempotency-key.ts';
import type { SlotRef } from '../domain/ids.ts';
import { METADATA } from '../domain/metadata.ts';

export interface FrozenItem extends SlotRef {
  readonly stripeCustomerId: string;
  readonly paymentMethodId: string;
  readonly amountMinor: number;
  readonly currency: string;
  readonly description: string | null;
}

/**
 * The bytes of the create, decided once per generation and stored before the first send. The
 * PaymentIntent is made unconfirmed, so that its id can be committed before any money moves.
 */
export function createRequestBody(item: FrozenItem, key: IdempotencyKey): string {
  const body = new URLSearchParams({
    amount: String(item.amountMinor),
    currency: item.currency,
    customer: item.stripeCustomerId,
    payment_method: item.paymentMethodId,
    // Whatever method the customer has on file, except those that need a browser to come back.
    'automatic_payment_methods[enabled]': 'true',
    'automatic_payment_methods[allow_redirects]': 'never',
  });
  if (item.description !== null) body.set('description', item.description);
  body.set(`metadata[${METADATA.namespace}]`, item.namespace);
  body.set(`metadata[${METADATA.customer}]`, item.customerId);
  body.set(`metadata[${METADATA.period}]`, item.period);
  body.set(`metadata[${METADATA.key}]`, key);
  return body.toString();
}

/** The bytes of the confirm: off-session, with the payment method of this generation. */
export function confirmRequestBody(paymentMethodId: string): string {
  return new URLSearchParams({ off_session: 'true', payment_method: paymentMethodId }).toString();
}
