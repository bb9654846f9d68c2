import { describe, expect, test } from 'vitest';
import type { Column } from '../../src/import/csv-header.ts';
import { checkRow } from '../../src/import/customer-row.ts';
import { createProblemList, MAX_LISTED_PROBLEMS } from '../../src/import/problem-list.ts';

const GOOD: Readonly<Record<Column, string>> = {
  customer_id: 'cust_1',
  stripe_customer_id: 'cus_1',
  payment_method_id: 'pm_card_visa',
  amount: '17.99',
  currency: 'USD',
  description: 'Plan "Müller", yearly',
  active: 'TRUE',
};

function check(changes: Partial<Record<Column, string>>) {
  const line = { ...GOOD, ...changes };
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- keys of GOOD are columns
  return checkRow(Object.keys(line) as Column[], Object.values(line));
}

describe('a line of the file', () => {
  test('becomes a customer with its amount in the minor unit and its currency in lower case', () => {
    expect(check({}).row).toEqual({
      customerId: 'cust_1',
      stripeCustomerId: 'cus_1',
      paymentMethodId: 'pm_card_visa',
      amountMinor: 1799,
      currency: 'usd',
      description: 'Plan "Müller", yearly',
      active: true,
    });
  });

  test.each([
    ['no payment method', { payment_method_id: '' }, { paymentMethodId: null }],
    ['nothing to charge', { amount: '0' }, { amountMinor: 0 }],
    ['no description', { description: '' }, { description: null }],
    ['an empty active', { active: '' }, { active: true }],
    ['active = false', { active: 'false' }, { active: false }],
    ['a line break in the description', { description: 'a\nb' }, { description: 'a\nb' }],
    ['the minimum of Stripe', { amount: '0.50' }, { amountMinor: 50 }],
    ['three decimals', { amount: '1.250', currency: 'kwd' }, { amountMinor: 1250 }],
    ['whole krónur', { amount: '500', currency: 'isk' }, { amountMinor: 50_000 }],
  ])('is taken with %s', (_, changes, expected) => {
    expect(check(changes)).toMatchObject({ problems: [], row: expected });
  });

  test.each<[string, Partial<Record<Column, string>>, Column, string]>([
    ['an empty id', { customer_id: '' }, 'customer_id', 'the customer id is empty'],
    ['an id that is not ASCII', { customer_id: 'müller' }, 'customer_id', 'may hold only'],
    ['an e-mail as id', { customer_id: 'jo@example.com' }, 'customer_id', 'looks like an e-mail'],
    ['blanks around the id', { customer_id: ' cust_1' }, 'customer_id', 'blanks around it'],
    ['an empty Stripe customer', { stripe_customer_id: '' }, 'stripe_customer_id', 'is empty'],
    [
      'a swapped Stripe id',
      { stripe_customer_id: 'pm_1' },
      'stripe_customer_id',
      'begins with cus_',
    ],
    [
      'a wrong payment method',
      { payment_method_id: 'tok_1' },
      'payment_method_id',
      'begins with pm_',
    ],
    ['an unknown currency', { currency: 'xyz' }, 'currency', 'is not a currency'],
    ['too many decimals', { amount: '1.999' }, 'amount', 'has 3 decimals; USD has at most 2'],
    ['decimals on yen', { amount: '500.00', currency: 'jpy' }, 'amount', 'JPY has no decimals'],
    ['a negative amount', { amount: '-1' }, 'amount', 'is negative'],
    [
      'an amount below the minimum',
      { amount: '0.49' },
      'amount',
      "below Stripe's minimum of 0.50 USD",
    ],
    ['nine digits', { amount: '1000000.00' }, 'amount', 'is too large'],
    ['an empty amount', { amount: '' }, 'amount', 'the amount is empty'],
    ['a decimal comma', { amount: '17,99' }, 'amount', 'is not an amount'],
    ['a wrong active', { active: 'yes' }, 'active', 'neither true nor false'],
    ['a long description', { description: 'x'.repeat(501) }, 'description', 'has 501 characters'],
    ['a NUL character', { description: 'a\0b' }, 'description', 'NUL'],
    ['bytes that are not UTF-8', { description: 'M\uFFFDller' }, 'description', 'not valid UTF-8'],
    [
      'a card number in the description',
      { description: '4242 4242 4242 4242' },
      'description',
      'card number',
    ],
    [
      'a card number as payment method',
      { payment_method_id: '4242424242424242' },
      'payment_method_id',
      'card number',
    ],
    ['a card number as amount', { amount: '4242424242424242' }, 'amount', 'card number'],
  ])('with %s is refused', (...[, changes, column, message]) => {
    const checked = check(changes);
    expect(checked.row).toBeUndefined();
    expect(checked.problems).toEqual([
      expect.objectContaining({ column, message: expect.stringContaining(message) }),
    ]);
  });

  test('with several problems has all of them told', () => {
    const checked = check({ customer_id: '', amount: 'x', active: 'x', stripe_customer_id: 'x' });
    expect(checked.problems.map(({ column }) => column)).toEqual([
      'customer_id',
      'stripe_customer_id',
      'amount',
      'active',
    ]);
  });

  test('with a field too many or too few is refused whole', () => {
    const columns = ['customer_id', 'amount'] as const;
    expect(checkRow(columns, ['a']).problems).toEqual([
      { column: '', message: 'the line has 1 fields, the header has 2' },
    ]);
    expect(checkRow(columns, ['a', '1', '2']).problems).toHaveLength(1);
  });

  test('keeps its customer id when another field is bad, so that repeats are found', () => {
    expect(check({ amount: 'x' })).toMatchObject({ customerId: 'cust_1', row: undefined });
  });

  test.each<[Column, string]>([
    ['customer_id', 'Jo Doe'],
    ['customer_id', 'jo@example.com'],
    ['amount', 'jo@example.com'],
    ['amount', '4242424242424242'],
    ['currency', '4242424242424242'],
    ['stripe_customer_id', 'jo@example.com'],
    ['active', 'jo@example.com'],
    ['description', '4242424242424242'],
  ])('never has a name, an e-mail or a card number in %s repeated: %s', (column, text) => {
    const { problems } = check({ [column]: text });
    expect(problems).not.toEqual([]);
    expect(JSON.stringify(problems)).not.toContain(text);
  });

  test('has a wrong amount repeated, cut short', () => {
    const [problem] = check({ currency: 'x'.repeat(200) }).problems;
    expect(problem?.value).toBe(`${'x'.repeat(60)}…`);
  });
});

describe('the list of problems', () => {
  test('keeps the first thousand in the order of the file and counts the rest', () => {
    const problems = createProblemList();
    for (let line = MAX_LISTED_PROBLEMS + 10; line > 0; line -= 1) {
      problems.add({ line, column: 'amount', message: 'x' });
    }
    problems.addUnlisted(5);
    expect(problems.count()).toBe(MAX_LISTED_PROBLEMS + 15);
    expect(problems.listed()).toHaveLength(MAX_LISTED_PROBLEMS);
    expect(problems.listed()[0]?.line).toBe(11);
  });
});
