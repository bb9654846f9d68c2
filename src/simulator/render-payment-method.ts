import { paymentMethodFixture } from './fixtures.ts';
import type { PaymentMethodFixture } from './fixtures.ts';
import type { Tenant } from './store.ts';

/** Objects that exist without having been created need one date; any constant in the past does. */
export const LAZY_CREATED = 1_700_000_000;

/** A PaymentMethod as the API shows it; its behaviour is in fixtures.ts. */
export function renderPaymentMethod(
  tenant: Tenant,
  id: string,
  owner: { readonly customer: string | null },
): object {
  const fixture = paymentMethodFixture(id);
  const type = fixture?.type ?? 'card';
  const base = {
    id,
    object: 'payment_method',
    allow_redisplay: 'unspecified',
    billing_details: noAddress(),
    created: LAZY_CREATED,
    customer: owner.customer,
    customer_account: null,
    livemode: tenant.livemode,
    metadata: {},
    type,
  };
  if (type === 'us_bank_account') {
    return {
      ...base,
      us_bank_account: {
        account_holder_type: 'individual',
        account_type: 'checking',
        bank_name: 'STRIPE TEST BANK',
        fingerprint: null,
        last4: fixture?.last4 ?? null,
        networks: null,
        routing_number: '110000000',
        status_details: null,
      },
    };
  }
  return {
    ...base,
    card: {
      brand: fixture?.brand ?? 'visa',
      checks: { address_line1_check: null, address_postal_code_check: null, cvc_check: 'pass' },
      country: 'US',
      display_brand: fixture?.brand ?? 'visa',
      exp_month: 12,
      exp_year: 2034,
      fingerprint: null,
      funding: 'credit',
      generated_from: null,
      last4: fixture?.last4 ?? '4242',
      networks: { available: [fixture?.brand ?? 'visa'], preferred: null },
      regulated_status: 'unregulated',
      three_d_secure_usage: { supported: true },
      wallet: null,
    },
  };
}

/** The card of a charge, which the API shows in another shape than the payment method's. */
export function renderChargedCard(method: PaymentMethodFixture | undefined): object {
  return {
    amount_authorized: null,
    brand: method?.brand ?? 'visa',
    checks: { address_line1_check: null, address_postal_code_check: null, cvc_check: null },
    country: 'US',
    exp_month: 12,
    exp_year: 2034,
    fingerprint: null,
    funding: 'credit',
    installments: null,
    last4: method?.last4 ?? '4242',
    mandate: null,
    network: method?.brand ?? 'visa',
    three_d_secure: null,
    wallet: null,
  };
}

/** Billing details of somebody who gave none. */
export function noAddress(): object {
  const address = {
    city: null,
    country: null,
    line1: null,
    line2: null,
    postal_code: null,
    state: null,
  };
  return { address, email: null, name: null, phone: null, tax_id: null };
}
