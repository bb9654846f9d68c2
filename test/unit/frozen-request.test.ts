import { describe, expect, it } from 'vitest';
import { idempotencyKey } from '../../src/domain/idempotency-key.ts';
import { METADATA } from '../../src/domain/metadata.ts';
import {
  confirmRequestBody,
  createRequestBody,
  type FrozenItem,
} from '../../src/payments/frozen-request.ts';
import { slotRef } from '../support/names.ts';

const slot = slotRef('cust_1');
const key = idempotencyKey({
  account: 'acct_1',
  mode: 'test',
  ...slot,
  operation: 'create',
  generation: 1,
});
const item: FrozenItem = {
  ...slot,
  stripeCustomerId: 'cus_1',
  paymentMethodId: 'pm_1',
  amountMinor: 1500,
  currency: 'usd',
  description: 'Plan & seats = 3',
};

describe('the bytes of a create', () => {
  const body = new URLSearchParams(createRequestBody(item, key));

  it('ask for the frozen amount from the frozen customer, and confirm nothing', () => {
    expect(Object.fromEntries(body)).toMatchObject({
      amount: '1500',
      currency: 'usd',
      customer: 'cus_1',
      payment_method: 'pm_1',
      description: 'Plan & seats = 3',
    });
    expect(body.has('confirm')).toBe(false);
    expect(body.has('off_session')).toBe(false);
  });

  it('carry slot and key as metadata, so that others find the charge without our keys', () => {
    expect(METADATA).toEqual({
      namespace: 'chargeonce_namespace',
      customer: 'chargeonce_customer',
      period: 'chargeonce_period',
      key: 'chargeonce_key',
    });
    expect(body.get('metadata[chargeonce_namespace]')).toBe('base');
    expect(body.get('metadata[chargeonce_customer]')).toBe('cust_1');
    expect(body.get('metadata[chargeonce_period]')).toBe('2026-09');
    expect(body.get('metadata[chargeonce_key]')).toBe(key);
  });

  it('D3: hold no key of their own and nothing that differs between two attempts', () => {
    expect([...body.keys()].filter((name) => /idempot|attempt/i.test(name))).toEqual([]);
    expect(createRequestBody(item, key)).toBe(createRequestBody({ ...item }, key));
  });

  it('leave the description out when there is none', () => {
    expect(
      new URLSearchParams(createRequestBody({ ...item, description: null }, key)).has(
        'description',
      ),
    ).toBe(false);
  });
});

describe('the bytes of a confirm', () => {
  it('charge off-session with the payment method of the generation', () => {
    expect(confirmRequestBody('pm_2')).toBe('off_session=true&payment_method=pm_2');
  });
});
