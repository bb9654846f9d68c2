import { describe, expect, it } from 'vitest';
import {
  readKeyChange,
  readKeyOrder,
  readRevokeOrder,
  type ReadBody,
} from '../../src/vault/admin-schemas.ts';

const NOW = new Date('2026-11-29T12:00:00.000Z');
const DAY_MS = 24 * 60 * 60 * 1000;
const GOOD = {
  vendor: 'stripe',
  max_amount: 5_000,
  currency: 'usd',
  allowed_endpoints: ['POST /v1/payment_intents'],
};

const without = (name: string): object =>
  Object.fromEntries(Object.entries(GOOD).filter(([key]) => key !== name));

function problemOf<T>(read: ReadBody<T>): { code: string; param: string | null } {
  if (read.ok) throw new Error(`was accepted: ${JSON.stringify(read.value)}`);
  const { code, param, message } = read.problem;
  expect(message).toContain(param ?? 'body');
  return { code, param };
}

describe('an order of a key', () => {
  it('is filled in: a total cap, 45 days, who made it', () => {
    expect(readKeyOrder(GOOD, NOW)).toEqual({
      ok: true,
      value: {
        capBasis: 'total',
        currency: 'usd',
        capMinor: 5_000,
        period: null,
        allowedEndpoints: ['POST /v1/payment_intents'],
        expiresAt: new Date(NOW.getTime() + 45 * DAY_MS),
        operator: 'admin',
      },
    });
  });

  it('is of its billing period when it names one', () => {
    const read = readKeyOrder({ ...GOOD, billing_period: '2026-11' }, NOW);
    expect(read).toMatchObject({
      ok: true,
      value: { capBasis: 'billing_period', period: '2026-11' },
    });
  });

  it.each([
    [500, 50_000],
    ['500', 50_000],
    [19.99, 1_999],
    [0.1, 10],
    ['0.01', 1],
  ])('takes daily_usd_cap %s as %i cents per day', (dollars, capMinor) => {
    const read = readKeyOrder({ ...without('max_amount'), daily_usd_cap: dollars }, NOW);
    expect(read).toMatchObject({
      ok: true,
      value: { capBasis: 'day', currency: 'usd', capMinor },
    });
  });

  it('needs no currency with daily_usd_cap', () => {
    const { vendor, allowed_endpoints } = GOOD;
    const read = readKeyOrder({ vendor, allowed_endpoints, daily_usd_cap: 1 }, NOW);
    expect(read).toMatchObject({ ok: true, value: { currency: 'usd', capMinor: 100 } });
  });

  it.each<[why: string, body: unknown, code: string, param: string | null]>([
    ['no object', null, 'body_invalid', null],
    ['a list', [GOOD], 'body_invalid', null],
    ['a text', 'max_amount=1', 'body_invalid', null],
    ['an unknown field', { ...GOOD, max_amout: 1 }, 'parameter_unknown', 'max_amout'],
    [
      'a typing error',
      { ...without('max_amount'), maxAmount: 1 },
      'parameter_unknown',
      'maxAmount',
    ],
    ['no vendor', without('vendor'), 'parameter_missing', 'vendor'],
    ['another vendor', { ...GOOD, vendor: 'adyen' }, 'parameter_invalid', 'vendor'],
    ['no cap', without('max_amount'), 'parameter_missing', 'max_amount'],
    ['two caps', { ...GOOD, daily_usd_cap: 5 }, 'parameter_invalid', 'daily_usd_cap'],
    ['cap 0', { ...GOOD, max_amount: 0 }, 'parameter_invalid', 'max_amount'],
    ['a negative cap', { ...GOOD, max_amount: -1 }, 'parameter_invalid', 'max_amount'],
    ['half a cent', { ...GOOD, max_amount: 10.5 }, 'parameter_invalid', 'max_amount'],
    ['a cap as text', { ...GOOD, max_amount: '5000' }, 'parameter_invalid', 'max_amount'],
    ['a cap beyond 2^53', { ...GOOD, max_amount: 2 ** 53 }, 'parameter_invalid', 'max_amount'],
    ['no currency', without('currency'), 'parameter_missing', 'currency'],
    ['a bad currency', { ...GOOD, currency: 'dollars' }, 'parameter_invalid', 'currency'],
    ['another basis', { ...GOOD, cap_basis: 'week' }, 'parameter_invalid', 'cap_basis'],
    [
      'no period of a period cap',
      { ...GOOD, cap_basis: 'billing_period' },
      'parameter_missing',
      'billing_period',
    ],
    ['a bad period', { ...GOOD, billing_period: '2026-13' }, 'parameter_invalid', 'billing_period'],
    ['no endpoints', without('allowed_endpoints'), 'parameter_missing', 'allowed_endpoints'],
    ['an empty list', { ...GOOD, allowed_endpoints: [] }, 'parameter_invalid', 'allowed_endpoints'],
    [
      'an endpoint that cannot be capped',
      { ...GOOD, allowed_endpoints: ['GET /v1/events', 'POST /v1/invoices'] },
      'parameter_invalid',
      'allowed_endpoints[1]',
    ],
    [
      'an endpoint twice',
      { ...GOOD, allowed_endpoints: ['GET /v1/charges/:id', 'GET /v1/charges/:charge'] },
      'parameter_invalid',
      'allowed_endpoints[1]',
    ],
    [
      'an endpoint that is no text',
      { ...GOOD, allowed_endpoints: [7] },
      'parameter_invalid',
      'allowed_endpoints[0]',
    ],
    [
      'a past expiry',
      { ...GOOD, expires_at: '2026-11-29T11:59:59Z' },
      'parameter_invalid',
      'expires_at',
    ],
    [
      'an expiry now',
      { ...GOOD, expires_at: '2026-11-29T12:00:00Z' },
      'parameter_invalid',
      'expires_at',
    ],
    [
      'an expiry after 400 days',
      { ...GOOD, expires_at: '2028-01-04T00:00:00Z' },
      'parameter_invalid',
      'expires_at',
    ],
    [
      'an expiry without zone',
      { ...GOOD, expires_at: '2026-12-31T00:00:00' },
      'parameter_invalid',
      'expires_at',
    ],
    ['nobody as operator', { ...GOOD, operator: ' ' }, 'parameter_invalid', 'operator'],
  ])('with %s is refused', (_why, body, ...wanted) => {
    const { code, param } = problemOf(readKeyOrder(body, NOW));
    expect([code, param]).toEqual(wanted);
  });

  it.each<[why: string, extra: object, param: string]>([
    ['a basis that contradicts it', { cap_basis: 'total' }, 'cap_basis'],
    ['the period as basis', { cap_basis: 'billing_period' }, 'cap_basis'],
    ['another currency', { currency: 'eur' }, 'currency'],
    ['three decimals', { daily_usd_cap: 1.005 }, 'daily_usd_cap'],
    ['0', { daily_usd_cap: 0 }, 'daily_usd_cap'],
    ['a negative sum', { daily_usd_cap: -5 }, 'daily_usd_cap'],
    ['a sum that is none', { daily_usd_cap: '5e3' }, 'daily_usd_cap'],
    ['a float that lost a cent', { daily_usd_cap: 0.1 + 0.2 }, 'daily_usd_cap'],
  ])('with daily_usd_cap and %s is refused', (_why, extra, param) => {
    const body = { ...without('max_amount'), daily_usd_cap: 5, ...extra };
    expect(problemOf(readKeyOrder(body, NOW))).toEqual({ code: 'parameter_invalid', param });
  });
});

describe('a change of a key', () => {
  const RAISE = { currency: 'usd', max_amount: 9_000, reason: 'late customers', operator: 'ada' };

  it('raises a cap, or extends the key', () => {
    expect(readKeyChange(RAISE, NOW)).toEqual({
      ok: true,
      value: {
        kind: 'raise',
        currency: 'usd',
        capMinor: 9_000,
        reason: 'late customers',
        operator: 'ada',
      },
    });
    const extend = { expires_at: '2026-12-24T00:00:00+01:00', reason: 'late', operator: 'ada' };
    expect(readKeyChange(extend, NOW)).toMatchObject({
      ok: true,
      value: { kind: 'extend', expiresAt: new Date('2026-12-23T23:00:00Z') },
    });
  });

  it.each<[string, object, string]>([
    ['a reason', { reason: undefined }, 'reason'],
    ['an operator', { operator: undefined }, 'operator'],
    ['the sum', { max_amount: undefined }, 'max_amount'],
    ['the currency', { currency: undefined }, 'currency'],
  ])('is refused without %s', (_what, change, param) => {
    const body = JSON.parse(JSON.stringify({ ...RAISE, ...change }));
    expect(problemOf(readKeyChange(body, NOW))).toEqual({ code: 'parameter_missing', param });
  });

  it('is refused when it is two changes', () => {
    const body = { ...RAISE, expires_at: '2026-12-24T00:00:00Z' };
    expect(problemOf(readKeyChange(body, NOW)).param).toBe('expires_at');
  });

  it('is refused when it would change what is fixed', () => {
    const body = { ...RAISE, allowed_endpoints: ['POST /v1/refunds'] };
    expect(problemOf(readKeyChange(body, NOW))).toEqual({
      code: 'parameter_unknown',
      param: 'allowed_endpoints',
    });
  });
});

describe('a revocation', () => {
  it('wants a reason and an operator', () => {
    expect(readRevokeOrder({ reason: 'leaked', operator: 'ada' }).ok).toBe(true);
    expect(problemOf(readRevokeOrder({ operator: 'ada' })).param).toBe('reason');
    expect(problemOf(readRevokeOrder({ reason: 'leaked' })).param).toBe('operator');
    expect(problemOf(readRevokeOrder(undefined)).code).toBe('body_invalid');
  });
});
