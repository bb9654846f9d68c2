import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  matchEndpoint,
  parseEndpoint,
  readPolicy,
  RUN_ENDPOINTS,
} from '../../src/vault/endpoints.ts';
import { readTarget } from '../../src/vault/target.ts';

const run = readPolicy(RUN_ENDPOINTS);
const kindOf = (method: string, path: string, policy = run) =>
  matchEndpoint(policy, method, path)?.kind ?? null;

describe('allowed endpoints', () => {
  it('gives an entry in one spelling', () => {
    expect(parseEndpoint('POST /v1/payment_intents/:intent/confirm')).toEqual({
      ok: true,
      endpoint: 'POST /v1/payment_intents/:id/confirm',
    });
    expect(parseEndpoint('GET /v1/payment_intents/pi_1')).toEqual({
      ok: true,
      endpoint: 'GET /v1/payment_intents/pi_1',
    });
    for (const endpoint of RUN_ENDPOINTS)
      expect(parseEndpoint(endpoint)).toEqual({ ok: true, endpoint });
  });

  it.each([
    'POST /v1/invoices/:id/pay',
    'POST /v1/subscriptions',
    'POST /v1/payouts',
    'POST /v1/transfers',
    'POST /v1/payment_intents/:id/:action',
    'POST /v1/payment_intents/:id/increment_authorization',
    'POST /v1/payment_intents/cus_1/confirm',
    'POST /v1/:collection',
    'DELETE /v1/payment_intents/:id',
  ])('refuses %s, since the vault cannot count it', (text) => {
    expect(parseEndpoint(text)).toMatchObject({ ok: false });
  });

  it.each([
    '',
    'POST',
    '/v1/charges',
    'post /v1/charges',
    'PUT /v1/charges',
    'POST  /v1/charges',
    'POST /v1/charges?amount=1',
    'GET /v2/charges',
    'GET /v1/../charges',
    'GET /v1//charges',
    'GET /v1/charges/',
    'GET /v1/*',
    'GET /v1/:id',
    'GET /v1/charges/:ID',
    'GET http://evil.example/v1/charges',
  ])('refuses %j, which is no entry', (text) => {
    expect(parseEndpoint(text)).toMatchObject({ ok: false });
  });

  it('says what a call does to money', () => {
    expect(matchEndpoint(run, 'POST', '/v1/payment_intents')).toMatchObject({
      kind: 'create',
      objectId: null,
    });
    expect(matchEndpoint(run, 'POST', '/v1/payment_intents/pi_1/confirm')).toMatchObject({
      kind: 'confirm',
      object: 'payment_intent',
      objectId: 'pi_1',
      endpoint: 'POST /v1/payment_intents/:id/confirm',
    });
    expect(matchEndpoint(run, 'GET', '/v1/payment_intents/pi_1')).toMatchObject({
      kind: 'read',
      object: 'payment_intent',
      objectId: 'pi_1',
    });
    const all = readPolicy([
      'POST /v1/payment_intents/:id/cancel',
      'POST /v1/payment_intents/:id/capture',
      'POST /v1/charges',
      'POST /v1/refunds',
      'POST /v1/payment_intents/:id',
    ]);
    expect(kindOf('POST', '/v1/payment_intents/pi_1/cancel', all)).toBe('cancel');
    expect(kindOf('POST', '/v1/payment_intents/pi_1/capture', all)).toBe('capture');
    expect(kindOf('POST', '/v1/charges', all)).toBe('create');
    expect(kindOf('POST', '/v1/refunds', all)).toBe('plain');
    expect(kindOf('POST', '/v1/payment_intents/pi_1', all)).toBe('plain');
  });

  it.each([
    ['POST', '/v1/refunds'],
    ['POST', '/v1/charges'],
    ['POST', '/v1/payment_intents/pi_1'],
    ['POST', '/v1/payment_intents/pi_1/cancel'],
    ['POST', '/v1/payment_intents/pi_1/Confirm'],
    ['POST', '/v1/Payment_Intents'],
    ['POST', '/v1/payment_intents/pi_1/confirm/x'],
    ['POST', '/v1/payment_intents/search/confirm'],
    ['POST', '/v1/payment_intents/confirm'],
    ['PATCH', '/v1/payment_intents'],
    ['post', '/v1/payment_intents'],
    ['DELETE', '/v1/payment_intents'],
    ['HEAD', '/v1/payment_intents'],
    ['GET', '/v1/customers'],
    ['GET', '/v1/payment_intents/search'],
    ['GET', '/v1/charges/search'],
    ['GET', '/v1/payment_intents/pi_1/confirm'],
  ])('V10: denies %s %s to the key of a run', (method, path) => {
    expect(kindOf(method, path)).toBeNull();
  });

  it('lets through exactly the templates that were allowed, whatever is asked for', () => {
    const allowed: readonly (readonly [string, RegExp])[] = [
      ['POST', /^\/v1\/payment_intents$/],
      ['POST', /^\/v1\/payment_intents\/pi_[A-Za-z0-9_]+\/confirm$/],
      ['GET', /^\/v1\/payment_intents$/],
      ['GET', /^\/v1\/payment_intents\/pi_[A-Za-z0-9_]+$/],
      ['GET', /^\/v1\/charges$/],
      ['GET', /^\/v1\/charges\/(?!search$)[A-Za-z0-9][A-Za-z0-9_-]*$/],
      ['GET', /^\/v1\/events$/],
    ];
    const segment = fc.constantFrom(
      'payment_intents',
      'charges',
      'events',
      'confirm',
      'cancel',
      'pi_1',
      'ch_1',
      'search',
      'refunds',
      'Confirm',
      'PAYMENT_INTENTS',
      '..',
      '%2e%2e',
      '',
      'pi_',
      'pi_1%2Fconfirm',
      ':id',
      '*',
      'confirm;x',
    );
    const asked = fc.record({
      method: fc.constantFrom('GET', 'POST', 'DELETE', 'PATCH', 'get', 'HEAD'),
      path: fc.oneof(
        fc.array(segment, { minLength: 1, maxLength: 5 }).map((parts) => `/v1/${parts.join('/')}`),
        fc.string().map((text) => `/v1/payment_intents${text}`),
        fc.string(),
      ),
    });
    fc.assert(
      fc.property(asked, ({ method, path }) => {
        const target = readTarget(path, method);
        const passes = target.ok && matchEndpoint(run, method, target.path) !== null;
        const plain = path.split('?')[0] ?? '';
        const expected =
          target.ok && allowed.some(([verb, pattern]) => verb === method && pattern.test(plain));
        expect(passes).toBe(expected);
      }),
      { numRuns: 2_000 },
    );
  });

  it('reads any text as an entry or a problem, and what it reads it reads again alike', () => {
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string(),
          fc.string().map((text) => `GET /v1/${text}`),
        ),
        (text) => {
          const parsed = parseEndpoint(text);
          expect(parsed.ok ? parseEndpoint(parsed.endpoint) : parsed).toEqual(parsed);
          expect(parsed.ok || parsed.problem !== '').toBe(true);
        },
      ),
    );
  });
});
