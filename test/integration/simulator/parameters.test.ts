import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Simulator } from '../../../src/simulator/index.ts';
import { clientOf, errorOf, send, startUnlimited } from './support.ts';

let simulator: Simulator;
beforeAll(async () => {
  simulator = await startUnlimited();
});
afterAll(() => simulator.close());

describe('parameters', () => {
  test.each([
    ['a missing amount', { currency: 'usd' }, 'parameter_missing'],
    ['a decimal amount', { amount: '15.5', currency: 'usd' }, 'parameter_invalid_integer'],
    ['a negative amount', { amount: '-5', currency: 'usd' }, 'parameter_invalid_integer'],
    ['nine digits', { amount: '123456789', currency: 'usd' }, 'amount_too_large'],
    ['less than 0.50 USD', { amount: '49', currency: 'usd' }, 'amount_too_small'],
    ['less than 50 JPY', { amount: '49', currency: 'jpy' }, 'amount_too_small'],
    [
      'UGX that does not end in 00',
      { amount: '50010', currency: 'ugx' },
      'parameter_invalid_integer',
    ],
    [
      'KWD whose third decimal is not 0',
      { amount: '5125', currency: 'kwd' },
      'parameter_invalid_integer',
    ],
    ['an unknown currency', { amount: '500', currency: 'xxx' }, undefined],
    [
      'off_session without confirm',
      { amount: '500', currency: 'usd', off_session: 'true' },
      undefined,
    ],
    [
      'an unknown parameter',
      { amount: '500', currency: 'usd', colour: 'red' },
      'parameter_unknown',
    ],
    [
      'a metadata key of 41 characters',
      { amount: '500', currency: 'usd', [`metadata[${'k'.repeat(41)}]`]: '1' },
      undefined,
    ],
    [
      'a metadata value of 501 characters',
      { amount: '500', currency: 'usd', 'metadata[k]': 'v'.repeat(501) },
      undefined,
    ],
    [
      'brackets in a metadata key',
      { amount: '500', currency: 'usd', 'metadata[a[b]]': '1' },
      undefined,
    ],
    [
      '51 metadata keys',
      {
        amount: '500',
        currency: 'usd',
        ...Object.fromEntries(Array.from({ length: 51 }, (_, n) => [`metadata[k${n}]`, '1'])),
      },
      undefined,
    ],
  ])('refuses %s before execution, without saving it under the key', async (what, body, code) => {
    const key = `bad-${what}`.replaceAll(' ', '-');
    const refused = await send(simulator, '/v1/payment_intents', { body, key });
    expect(refused.status).toBe(400);
    expect(refused.json.error).toMatchObject({
      type: 'invalid_request_error',
      ...(code === undefined ? {} : { code }),
    });
    const corrected = await send(simulator, '/v1/payment_intents', {
      body: { amount: '500', currency: 'usd' },
      key,
    });
    expect(corrected.status).toBe(200);
  });

  test.each([
    ['customer', { customer: 'cus_missing1' }, 'No such customer'],
    ['payment method', { payment_method: 'pm_missing1' }, 'No such PaymentMethod'],
  ])(
    'saves the refusal of a missing %s, because execution had begun',
    async (_what, body, message) => {
      const request = {
        body: { amount: '500', currency: 'usd', ...body },
        key: `missing-${message}`.replaceAll(' ', '-'),
      };
      const first = await send(simulator, '/v1/payment_intents', request);
      expect(first.json.error).toMatchObject({
        code: 'resource_missing',
        message: expect.stringContaining(message),
      });
      const again = await send(simulator, '/v1/payment_intents', request);
      expect(again.headers.get('Idempotent-Replayed')).toBe('true');
      expect(again.text).toBe(first.text);
    },
  );

  test.each([
    ['no key', { Authorization: '' }],
    ['a publishable key', { Authorization: 'Bearer pk_test_123' }],
    ['a key that is no key', { Authorization: 'Bearer hello' }],
    ['an expired key', { Authorization: 'Bearer sk_test_revoked1' }],
  ])('answers 401 to %s', async (_what, headers) => {
    const reply = await send(simulator, '/v1/account', { headers });
    expect(reply.status).toBe(401);
    expect(reply.json.error.type).toBe('invalid_request_error');
  });

  test('lets a read-only restricted key read and refuses its writes with 403', async () => {
    const secret = 'rk_test_readonly1';
    expect((await send(simulator, '/v1/account', { secret })).status).toBe(200);
    expect(
      (
        await send(simulator, '/v1/payment_intents', {
          secret,
          body: { amount: '500', currency: 'usd' },
        })
      ).status,
    ).toBe(403);
  });

  test('answers 404 for an unknown object and for an unknown address', async () => {
    expect((await errorOf(clientOf(simulator).paymentIntents.retrieve('pi_nothing'))).code).toBe(
      'resource_missing',
    );
    expect((await send(simulator, '/v1/unicorns')).status).toBe(404);
  });
});
