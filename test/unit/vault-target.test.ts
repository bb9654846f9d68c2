import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readTarget } from '../../src/vault/target.ts';

const refused = (raw: string, method = 'GET') => {
  const target = readTarget(raw, method);
  return target.ok ? 'passed' : target.code;
};

describe('the request target', () => {
  it('passes a plain path and the query of a GET as they stand', () => {
    expect(
      readTarget('/v1/payment_intents/pi_1?expand[]=latest_charge&created%5Bgte%5D=1', 'GET'),
    ).toEqual({
      ok: true,
      path: '/v1/payment_intents/pi_1',
      query: '?expand[]=latest_charge&created%5Bgte%5D=1',
    });
    expect(readTarget('/v1/payment_intents', 'POST')).toEqual({
      ok: true,
      path: '/v1/payment_intents',
      query: '',
    });
  });

  it.each([
    'http://169.254.169.254/v1/charges',
    'https://api.stripe.com/v1/charges',
    '//evil.example/v1/charges',
    '\\evil.example\\v1\\charges',
    '/\\evil.example/v1/charges',
    '@evil.example/v1/charges',
    '/v1/@evil.example/charges',
    '/v1/payment_intents%2Fpi_1/confirm',
    '/v1/payment_intents/pi_1%2f..%2fconfirm',
    '/v1/%70ayment_intents',
    '/v1/./payment_intents',
    '/v1/../v1/charges',
    '/v1/payment_intents/..',
    '/v1/.../charges',
    '/v1//payment_intents',
    '/v1/payment_intents/',
    '/v1/',
    '/v1',
    '/',
    '*',
    '',
    '/v2/core/accounts',
    '/V1/payment_intents',
    '/v1/payment_intents#fragment',
    '/v1/payment_intents?a=b#fragment',
    '/v1/payment_intents?a=b c',
    '/v1/payment_intents?_method=POST&amount=1&currency=usd',
    '/v1/payment_intents?a=b&%5Fmethod=POST',
    '/v1/payment_intents?a=b;_method=POST',
    '/v1/payment_intents\t',
    '/v1/payment_intents\u00e9',
    '/v1/payment_intents;x=1',
    '/v1/customers/sk_live_abc',
    '/v1/payment_intents/pi_1:confirm',
    `/v1/${'a'.repeat(5_000)}`,
  ])('refuses %j', (raw) => {
    expect(refused(raw)).toBe('bad_target');
    expect(refused(raw, 'POST')).toBe('bad_target');
  });

  it('refuses a query on a POST, even an empty one', () => {
    expect(refused('/v1/payment_intents?amount=1', 'POST')).toBe('query_on_post');
    expect(refused('/v1/payment_intents?', 'POST')).toBe('query_on_post');
  });

  it('never throws, and what passes reads the same to a URL parser with any base', () => {
    const part = fc.constantFrom(
      '/',
      '/v1',
      'v1/',
      '..',
      '.',
      '%2f',
      '//',
      '\\',
      '@',
      '?',
      '#',
      'a',
      'pi_1',
      ':80',
      ' ',
    );
    const raw = fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.array(part, { maxLength: 12 }).map((parts) => parts.join('')),
      fc.array(part, { maxLength: 8 }).map((parts) => `/v1/${parts.join('')}`),
    );
    fc.assert(
      fc.property(raw, fc.constantFrom('GET', 'POST', 'DELETE'), (text, method) => {
        const target = readTarget(text, method);
        if (!target.ok) return;
        const url = new URL(text, 'https://api.stripe.com');
        expect(url.origin).toBe('https://api.stripe.com');
        expect(url.pathname).toBe(target.path);
        expect(target.path + target.query).toBe(text);
        expect(target.path).toMatch(/^\/v1\/[\x21-\x7e]+$/);
        expect(target.path).not.toMatch(/%|\/\/|\/\.|\\|@/);
      }),
      { numRuns: 2_000 },
    );
  });
});
