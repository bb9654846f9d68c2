import { describe, expect, test } from 'vitest';
import { parseCustomerId } from '../../src/domain/customer-id.ts';
import { DEFAULT_NAMESPACE, parseBillingNamespace } from '../../src/domain/namespace.ts';

describe('a customer id', () => {
  test.each(['cust_0001', 'A', '42', 'a.b-c_D', 'x'.repeat(64)])('may be %s', (text) => {
    expect(parseCustomerId(text)).toEqual({ ok: true, customerId: text });
  });

  test.each([
    ['', 'empty'],
    ['jo@example.com', 'looks like an e-mail'],
    ['x'.repeat(65), 'has 65 characters; at most 64'],
    ['müller', 'may hold only'],
    ['a b', 'may hold only'],
    ['a/b', 'may hold only'],
    ['a:b', 'may hold only'],
    ['a\n', 'may hold only'],
  ])('may not be %j', (text, expected) => {
    expect(parseCustomerId(text)).toEqual({
      ok: false,
      problem: expect.stringContaining(expected),
    });
  });

  test('that is an e-mail is not repeated in the message', () => {
    const parsed = parseCustomerId('jo@example.com');
    expect(JSON.stringify(parsed)).not.toContain('jo@');
  });
});

describe('a billing namespace', () => {
  test('is base unless another is named', () => {
    expect(DEFAULT_NAMESPACE).toBe('base');
  });

  test.each(['base', 'overage', 'a', 'late_fee-2', `a${'b'.repeat(31)}`])('may be %s', (text) => {
    expect(parseBillingNamespace(text)).toEqual({ ok: true, namespace: text });
  });

  test.each(['', 'Base', '1a', '_a', 'a.b', 'a b', 'a\n', `a${'b'.repeat(32)}`])(
    'may not be %j',
    (text) => {
      expect(parseBillingNamespace(text)).toEqual({
        ok: false,
        problem: expect.stringContaining('is not a namespace'),
      });
    },
  );
});
