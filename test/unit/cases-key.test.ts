import fc from 'fast-check';
import { globSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { parseCurrency } from '../../src/domain/currencies.ts';
import { idempotencyKey } from '../../src/domain/idempotency-key.ts';
import { parseAmountMajor } from '../../src/domain/money.ts';
import { METADATA } from '../../src/domain/metadata.ts';
import { createRequestBody } from '../../src/payments/frozen-request.ts';
import { slotRef } from '../support/names.ts';

// Failures that others had in public; the ids are those of docs/cases.md.

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** Any text as any part: what no parser would let through as well. */
const keyOf = (parts: Readonly<Record<string, string>>) =>
  idempotencyKey({
    account: 'acct_1',
    mode: 'test',
    ...slotRef('cus_123'),
    operation: 'create',
    generation: 1,
    ...parts,
  });

describe('a key', () => {
  it('L4: tells values apart that hold the separators of any recipe', () => {
    const parts = ['account', 'namespace', 'customerId', 'period'] as const;
    const shared: string[] = [];
    for (const mark of [
      ':',
      '|',
      ',',
      '/',
      '-',
      '.',
      ';',
      '&',
      '=',
      '\n',
      '\0',
      ' ',
      '1:',
      ',1:',
    ]) {
      const keys = parts.flatMap((left, i) => {
        const right = parts[i + 1];
        if (right === undefined) return [];
        return [
          keyOf({ [left]: `a${mark}b`, [right]: 'c' }),
          keyOf({ [left]: 'a', [right]: `b${mark}c` }),
          keyOf({ [left]: `a${mark}b${mark}c`, [right]: '' }),
          keyOf({ [left]: '', [right]: `a${mark}b${mark}c` }),
        ];
      });
      if (new Set(keys).size < keys.length) shared.push(mark);
    }
    expect(shared).toEqual([]);
  });

  it('D9: is another one for another account and for the other mode', () => {
    const keys = [keyOf({}), keyOf({ account: 'acct_2' }), keyOf({ mode: 'live' })];
    expect(new Set(keys).size).toBe(3);
  });

  it('N7: differs for two customers whom a 32-bit hash takes for one', () => {
    const hash31 = (text: string) =>
      Array.from(text).reduce((hash, char) => (Math.imul(hash, 31) + char.charCodeAt(0)) | 0, 0);
    expect(hash31('cus_Aa')).toBe(hash31('cus_BB'));
    expect(keyOf({ customerId: 'cus_Aa' })).not.toBe(keyOf({ customerId: 'cus_BB' }));
  });
});

describe('a request', () => {
  it('L4: comes apart into the very values it was made of, whatever they hold', () => {
    const text = fc.oneof(
      fc.string({ unit: 'grapheme' }),
      fc.constantFrom('1&amount=2', 'a=b', '%26', '+', '&metadata[chargeonce_key]=x', '\r\nX: y'),
    );
    fc.assert(
      fc.property(text, text, (description, stripeCustomerId) => {
        const item = {
          ...slotRef('cust_1'),
          stripeCustomerId,
          paymentMethodId: 'pm_1',
          amountMinor: 1500,
          currency: 'usd',
          description,
        };
        const sent = new URLSearchParams(createRequestBody(item, keyOf({})));
        expect(sent.getAll('amount')).toEqual(['1500']);
        expect(sent.getAll('description')).toEqual([description.toWellFormed()]);
        expect(sent.getAll('customer')).toEqual([stripeCustomerId.toWellFormed()]);
        expect(sent.getAll(`metadata[${METADATA.key}]`)).toEqual([keyOf({})]);
      }),
      { numRuns: 500 },
    );
  });

  it('A9, L8, L10: goes to no search and makes no customer: these are the paths there are', () => {
    const paths = globSync('src/**/*.ts', { cwd: ROOT })
      .filter((file) => !file.startsWith(path.join('src', 'simulator')))
      // Our own API is under /v1 as well.
      .filter((file) => !file.startsWith(path.join('src', 'http', 'api')))
      // What clients of the vault may be allowed; it calls none of that by itself.
      .filter((file) => file !== path.join('src', 'vault', 'endpoints.ts'))
      .flatMap((file) => [...readFileSync(path.join(ROOT, file), 'utf8').matchAll(/\/v1\/[\w/]*/g)])
      .map(([found]) => found.replace(/\/$/, ''))
      .filter((found) => found !== '/v1');
    expect([...new Set(paths)].sort()).toEqual([
      '/v1/account',
      '/v1/charges',
      '/v1/events',
      '/v1/payment_intents',
      '/v1/refunds',
    ]);
  });
});

describe('amounts', () => {
  const currency = parseCurrency('usd');
  if (!currency.ok) throw new Error(currency.problem);
  const minor = (text: string): number => {
    const parsed = parseAmountMajor(text, currency.currency);
    if (!parsed.ok) throw new Error(parsed.problem);
    return parsed.amountMinor;
  };

  it.each(['0.335', '1.005', '17.990', '0.3350'])(
    'K6: %s is refused instead of rounded, so there is one place that rounds: where the price is made',
    (text) => {
      expect(parseAmountMajor(text, currency.currency)).toMatchObject({ ok: false });
    },
  );

  it('K6: add up to the total to the cent, in any number and any order', () => {
    // A line of 0.335 is rounded by whoever makes the price; the cents we are given are only ever added.
    expect(3 * minor('0.37')).toBe(minor('1.11'));
    const prices = fc.array(fc.integer({ min: 0, max: 999_999 }), { maxLength: 90 });
    const written = (cents: bigint) => `${cents / 100n}.${String(cents % 100n).padStart(2, '0')}`;
    fc.assert(
      fc.property(prices, (cents) => {
        const lines = cents.map((one) => minor(written(BigInt(one))));
        const exact = cents.reduce((sum, one) => sum + BigInt(one), 0n);
        const total = lines.reduce((sum, one) => sum + one, 0);
        expect(total).toBe(Number(exact));
        expect(lines.toReversed().reduce((sum, one) => sum + one, 0)).toBe(total);
        expect(minor(written(exact))).toBe(total);
      }),
    );
  });
});
