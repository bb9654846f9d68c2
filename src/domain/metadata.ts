/** Metadata names by which auditors find our charges at Stripe without knowing our keys. */
export const METADATA = {
  namespace: 'chargeonce_namespace',
  customer: 'chargeonce_customer',
  period: 'chargeonce_period',
  key: 'chargeonce_key',
} as const;
