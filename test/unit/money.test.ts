import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  allCurrencies,
  currencyRule,
  minimumChargeMinor,
  parseCurrency,
} from '../../src/domain/currencies.ts';
import type { Currency } from '../../src/domain/currencies.ts';
import {
  assertAmountMinor,
  chargeProblem,
  formatAmountMajor,
  formatMoney,
  MAX_AMOUNT_MINOR,
  parseAmountMajor,
} from '../../src/domain/money.ts';

function currency(code: string): Currency {
  const parsed = parseCurrency(code);
  if (!parsed.ok) throw new Error(parsed.problem);
  return parsed.currency;
}

function minor(text: string, code: string): number {
  const parsed = parseAmountMajor(text, currency(code));
  if (!parsed.ok) throw new Error(parsed.problem);
  return parsed.amountMinor;
}

function problem(text: string, code: string): string {
  const parsed = parseAmountMajor(text, currency(code));
  if (parsed.ok) throw new Error(`"${text}" was read as ${parsed.amountMinor}`);
  return parsed.problem;
}

describe('amounts in major units', () => {
  test.each([
    ['500', 'jpy', 500],
    ['500', 'ugx', 50_000],
    ['500', 'isk', 50_000],
    ['500.00', 'isk', 50_000],
    ['5.12', 'kwd', 5120],
    ['5.120', 'kwd', 5120],
    ['175', 'huf', 17_500],
    ['30.5', 'twd', 3050],
    ['500', 'mga', 500],
    ['17.99', 'usd', 1799],
    ['78.40', 'usd', 7840],
    ['5.10', 'usd', 510],
    ['5.1', 'usd', 510],
    ['0', 'usd', 0],
    ['0.00', 'kwd', 0],
    ['999999.99', 'usd', MAX_AMOUNT_MINOR],
    ['99999999', 'jpy', MAX_AMOUNT_MINOR],
  ])('K1, K2, K4: reads %s %s as %i, as Stripe takes it', (text, code, expected) => {
    expect(minor(text, code)).toBe(expected);
  });

  test('K3: reads every price from 0.00 to 99.99 to the cent, where truncating a product loses 573', () => {
    const wrong: string[] = [];
    let lostByFloat = 0;
    for (let cents = 0; cents < 10_000; cents += 1) {
      const text = `${Math.floor(cents / 100)}.${String(cents % 100).padStart(2, '0')}`;
      if (minor(text, 'usd') !== cents) wrong.push(text);
      if (Math.trunc(Number(text) * 100) !== cents) lostByFloat += 1;
    }
    expect(wrong).toEqual([]);
    expect(lostByFloat).toBe(573);
  });

  test.each([
    ['1.999', 'usd', '"1.999" has 3 decimals; USD has at most 2 decimals'],
    ['500.00', 'jpy', '"500.00" has 2 decimals; JPY has no decimals'],
    ['5.1234', 'kwd', '"5.1234" has 4 decimals; KWD has at most 3 decimals'],
    ['5.124', 'kwd', '"5.124" ends in a digit other than 0; Stripe charges KWD in steps of 0.010'],
    ['500.50', 'isk', '"500.50" has a fraction; ISK is charged in whole units'],
    ['0.01', 'ugx', '"0.01" has a fraction; UGX is charged in whole units'],
    ['-5', 'usd', '"-5" is negative; an amount to charge is 0 or more'],
    ['', 'usd', 'the amount is empty; write 0 for nothing to charge'],
    ['1000000', 'usd', '"1000000" is too large; Stripe takes at most 999999.99 USD'],
    ['100000000', 'jpy', '"100000000" is too large; Stripe takes at most 99999999 JPY'],
    [
      '9007199254740993',
      'jpy',
      '"9007199254740993" is too large; Stripe takes at most 99999999 JPY',
    ],
  ])('refuses %s %s and says why', (text, code, expected) => {
    expect(problem(text, code)).toBe(expected);
  });

  test.each([
    '1,000.00',
    '1.000,00',
    '+5',
    ' 5',
    '5 ',
    '.5',
    '5.',
    '1e3',
    '0x10',
    '007',
    '٥',
    '$5',
    '5\n',
    'NaN',
  ])('refuses %j, which is not a plain decimal', (text) => {
    expect(problem(text, 'usd')).toContain('is not an amount');
  });

  test('come back unchanged after being written and read, in every currency', () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...allCurrencies()),
        fc.integer({ min: 0, max: MAX_AMOUNT_MINOR }),
        (code, amount) => {
          const amountMinor = amount - (amount % currencyRule(code).stepMinor);
          const text = formatAmountMajor(amountMinor, code);
          expect(parseAmountMajor(text, code)).toEqual({ ok: true, amountMinor });
        },
      ),
      { numRuns: 5000 },
    );
  });
});

describe('amounts for people', () => {
  test.each([
    [1799, 'usd', '17.99 USD'],
    [5, 'usd', '0.05 USD'],
    [0, 'kwd', '0.000 KWD'],
    [-250, 'eur', '-2.50 EUR'],
    [500, 'jpy', '500 JPY'],
    [50_000, 'isk', '500.00 ISK'],
    [123_456_789_012, 'usd', '1234567890.12 USD'],
  ])('write %i %s as %s', (amountMinor, code, expected) => {
    expect(formatMoney(amountMinor, currency(code))).toBe(expected);
  });

  test.each([0.5, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 53])(
    'refuse %d, which is no safe integer',
    (amount) => {
      expect(() => assertAmountMinor(amount)).toThrow(RangeError);
      expect(() => formatMoney(amount, currency('usd'))).toThrow(RangeError);
    },
  );
});

describe('what Stripe charges', () => {
  test.each([
    ['usd', 50],
    ['eur', 50],
    ['gbp', 30],
    ['jpy', 50],
    ['mxn', 1000],
    ['czk', 1500],
    ['huf', 17_500],
  ])('a minimum in %s is charged, one unit less is not', (code, minimum) => {
    const known = currency(code);
    expect(chargeProblem({ amountMinor: minimum, currency: known })).toBeUndefined();
    expect(chargeProblem({ amountMinor: minimum - 1, currency: known })).toContain(
      `below Stripe's minimum of ${formatMoney(minimum, known)}`,
    );
  });

  test.each(allCurrencies())('zero and nine digits are not charged in %s', (code) => {
    expect(minimumChargeMinor(code) % currencyRule(code).stepMinor).toBe(0);
    expect(chargeProblem({ amountMinor: 0, currency: code })).toContain('below');
    expect(chargeProblem({ amountMinor: 100_000_000, currency: code })).toContain('above');
  });

  test('an amount between the steps of its currency is not charged', () => {
    const problems = ['usd', 'jpy', 'isk', 'ugx', 'kwd', 'tnd'].map((code) =>
      chargeProblem({ amountMinor: 40_001, currency: currency(code) }),
    );
    expect(problems).toEqual([
      undefined,
      undefined,
      '"400.01" has a fraction; ISK is charged in whole units',
      '"400.01" has a fraction; UGX is charged in whole units',
      '"40.001" ends in a digit other than 0; Stripe charges KWD in steps of 0.010',
      '"40.001" ends in a digit other than 0; Stripe charges TND in steps of 0.010',
    ]);
  });
});

describe('currencies', () => {
  test('are read in any case and written in lower case', () => {
    expect(currency('USD')).toBe('usd');
    expect(currency('Kwd')).toBe('kwd');
  });

  test.each(['', 'usdt', 'us', 'xyz', ' usd', 'iqd', 'constructor'])('%j is refused', (text) => {
    expect(parseCurrency(text)).toEqual({
      ok: false,
      problem: expect.stringContaining('is not a currency Stripe charges in'),
    });
  });

  test('follow the lists of Stripe for zero and three decimals', () => {
    const byDecimals = (decimals: number) =>
      allCurrencies().filter((code) => currencyRule(code).decimals === decimals);
    expect(byDecimals(0).join(' ')).toBe(
      'bif clp djf gnf jpy kmf krw mga pyg rwf vnd vuv xaf xof xpf',
    );
    expect(byDecimals(3).join(' ')).toBe('bhd jod kwd omr tnd');
    expect(new Set(allCurrencies()).size).toBe(allCurrencies().length);
    expect(allCurrencies().length).toBeGreaterThan(135);
  });
});
