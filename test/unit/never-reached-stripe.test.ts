import { describe, expect, it } from 'vitest';
import { neverReachedStripe } from '../../src/payments/classify.ts';
import type { Refusal } from '../../src/payments/gateway.ts';

const refusal = (parts: Partial<Refusal>): Refusal => ({
  status: 400,
  type: 'invalid_request_error',
  code: null,
  declineCode: null,
  adviceCode: null,
  message: 'said by Stripe',
  shouldRetry: null,
  retryAfterMs: null,
  paymentIntent: null,
  ...parts,
});

describe('neverReachedStripe', () => {
  it.each([400, 401, 402, 403, 404, 408, 409, 413, 415, 429, 503])(
    'takes %i for proof when the vault says it, and not when anybody else does',
    (status) => {
      expect(neverReachedStripe(refusal({ status, type: 'vault_error' }))).toBe(true);
      for (const type of ['api_error', 'card_error', 'invalid_request_error', null])
        expect(neverReachedStripe(refusal({ status, type }))).toBe(false);
    },
  );

  it.each([500, 502, 504])('takes %i of the vault for none: it broke on the way', (status) => {
    expect(neverReachedStripe(refusal({ status, type: 'vault_error' }))).toBe(false);
  });
});
