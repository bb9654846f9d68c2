import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { holdsCardNumber } from '../../src/import/card-number.ts';

describe('a text with a card number', () => {
  test.each([
    '4242424242424242',
    '4242 4242 4242 4242',
    '4242-4242-4242-4242',
    'card 4000056655665556, exp 12/30',
    '378282246310005',
    '6011111111111117',
    '4222222222222',
  ])('is recognised in %j', (text) => {
    expect(holdsCardNumber(text)).toBe(true);
  });

  test.each([
    '4242424242424241',
    '42424242424242424242',
    '424242424242',
    'cust_0001',
    'cus_Ex0001',
    '2026-11-29',
    '',
    '17.99',
  ])('is not seen in %j', (text) => {
    expect(holdsCardNumber(text)).toBe(false);
  });

  test('is recognised for every number with a right check digit, and for no other', () => {
    const digits = fc.array(fc.integer({ min: 0, max: 9 }), { minLength: 12, maxLength: 18 });
    fc.assert(
      fc.property(digits, (body) => {
        const numbers = Array.from({ length: 10 }, (_, check) => `${body.join('')}${check}`);
        expect(numbers.filter((number) => holdsCardNumber(number))).toHaveLength(1);
      }),
    );
  });
});
