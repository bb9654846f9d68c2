import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { METADATA } from '../../src/domain/metadata.ts';
import { createRequestBody } from '../../src/payments/frozen-request.ts';
import { idempotencyKey } from '../../src/domain/idempotency-key.ts';
import { OUR_METADATA, readForm } from '../../src/vault/form-body.ts';
import { marksOf } from '../../src/vault/marks.ts';
import { slotRef } from '../support/names.ts';

const CREATE = { kind: 'create', object: 'payment_intent', objectId: null } as const;
const CHARGE = { kind: 'create', object: 'charge', objectId: null } as const;
const CONFIRM = { kind: 'confirm', object: 'payment_intent', objectId: 'pi_1' } as const;
const CAPTURE = { kind: 'capture', object: 'payment_intent', objectId: 'pi_1' } as const;
const UPDATE = { kind: 'plain', object: null, objectId: 'pi_1' } as const;
const CUSTOMER = { kind: 'plain', object: null, objectId: null } as const;
const REFUND = { kind: 'plain', object: null, objectId: null } as const;

const read = (text: string | Buffer, endpoint: Parameters<typeof readForm>[1] = CREATE) =>
  readForm(Buffer.from(text), endpoint);
const codeOf = (text: string | Buffer, endpoint?: Parameters<typeof readForm>[1]) => {
  const form = read(text, endpoint);
  return form.ok ? 'read' : form.code;
};

describe('the form body', () => {
  it('gives sum, customer and what it is for', () => {
    const text =
      'amount=1500&currency=USD&customer=cus_1&metadata[chargeonce_period]=2026-11&metadata%5Bchargeonce_customer%5D=c+1&description=a%3Bb';
    expect(read(text)).toEqual({
      ok: true,
      facts: {
        amountMinor: 1500,
        currency: 'usd',
        stripeCustomer: 'cus_1',
        marks: marksOf([
          ['chargeonce_customer', 'c 1'],
          ['chargeonce_period', '2026-11'],
        ]),
        namespace: null,
        period: '2026-11',
        customerId: 'c 1',
      },
    });
  });

  it("knows the metadata names of our own engine, and reads its create's body", () => {
    expect(OUR_METADATA).toEqual({
      namespace: METADATA.namespace,
      period: METADATA.period,
      customerId: METADATA.customer,
    });
    const slot = slotRef('cust_1');
    const parts = { account: 'acct_1', mode: 'test', operation: 'create', generation: 1 } as const;
    const key = idempotencyKey({ ...parts, ...slot });
    const item = { ...slot, stripeCustomerId: 'cus_1', paymentMethodId: 'pm_1', amountMinor: 1500 };
    const body = createRequestBody({ ...item, currency: 'usd', description: 'ü & = ; +' }, key);
    expect(read(body)).toMatchObject({
      ok: true,
      facts: {
        amountMinor: 1500,
        currency: 'usd',
        stripeCustomer: 'cus_1',
        namespace: slot.namespace,
        period: slot.period,
        customerId: 'cust_1',
        marks: marksOf([
          [METADATA.namespace, slot.namespace],
          [METADATA.customer, 'cust_1'],
          [METADATA.period, slot.period],
          [METADATA.key, key],
        ]),
      },
    });
  });

  it.each([
    'amount=1&amount=2&currency=usd',
    'amount=1&%61mount=2&currency=usd',
    'amount=1&currency=usd&amount[]=2',
    'amount=1&currency=usd&amount%5B%5D=2',
    'amount[0]=1&currency=usd',
    'amount[value]=1&currency=usd',
    'amount=1&currency=usd&Amount=2',
    'amount=1&currency=usd&currency=jpy',
    'amount=1&currency=usd&currency[a]=jpy',
    'amount=1&currency=usd&confirm=false&confirm=true',
    'amount=1&currency=usd&customer=cus_1&customer=cus_2',
    'amount=1&currency=usd&capture_method=manual&capture_method=automatic',
    'amount=1&currency=usd&amount_to_capture=5',
  ])('refuses %s: two parsers could take two sums', (text) => {
    expect(codeOf(text)).toBe('amount_ambiguous');
  });

  it.each([
    'amount=1&currency=usd&[amount]=900',
    'amount=1&currency=usd&amount]=900',
    'amount=1&currency=usd&amount[=900',
    'amount=1&currency=usd& amount=900',
    'amount=1&currency=usd&+amount=900',
    'amount=1&currency=usd;amount=900',
    'amount=1&currency=usd&a%00b=1',
    'amount=1&currency=usd&a=%00',
    'amount=1&currency=usd&a=%',
    'amount=1&currency=usd&a=%4',
    'amount=1&currency=usd&a=%zz',
    'amount=1&currency=usd&a=%ff',
    'amount=1&currency=usd&_method=DELETE',
    'amount=1&currency=usd&metadata[a]=1&metadata[a]=2',
    'amount=1&currency=usd&metadata[a][b]=1',
    'amount=1&currency=usd&metadata[]=1',
    '{"amount":1,"currency":"usd"}',
    '\ufeffamount=1&currency=usd',
  ])('refuses %j as unreadable', (text) => {
    expect(codeOf(text)).toBe('unreadable_body');
  });

  it('refuses bytes that are no UTF-8', () => {
    expect(codeOf(Buffer.from([...Buffer.from('amount=1&currency=usd&a='), 0xff]))).toBe(
      'unreadable_body',
    );
  });

  it.each([
    '0',
    '-1',
    '+1',
    '1.5',
    '1e3',
    '0x10',
    '01',
    ' 1',
    '1 ',
    '1\n',
    '',
    '1234567890123',
    '١',
    'NaN',
  ])('refuses the amount %j', (amount) => {
    const body = `amount=${encodeURIComponent(amount)}&currency=usd`;
    expect(codeOf(body)).toBe('amount_invalid');
  });

  it('refuses a create without amount or currency, and a currency that is none', () => {
    expect(codeOf('')).toBe('amount_missing');
    expect(codeOf('currency=usd')).toBe('amount_missing');
    expect(codeOf('amount=1')).toBe('amount_missing');
    expect(codeOf('amount=1&currency=us')).toBe('currency_invalid');
    expect(codeOf('amount=1&currency=usd1')).toBe('currency_invalid');
    expect(codeOf('amount=1&currency=')).toBe('currency_invalid');
  });

  it('refuses a sum on a confirm, a capture of more than one spelling, and an update of the sum', () => {
    expect(codeOf('payment_method=pm_1&off_session=true', CONFIRM)).toBe('read');
    expect(codeOf('amount=9', CONFIRM)).toBe('amount_ambiguous');
    expect(codeOf('amount_to_confirm=9', CONFIRM)).toBe('amount_ambiguous');
    expect(read('amount_to_capture=9', CAPTURE)).toMatchObject({
      ok: true,
      facts: { amountMinor: 9 },
    });
    expect(read('', CAPTURE)).toMatchObject({ ok: true, facts: { amountMinor: null } });
    expect(codeOf('amount_to_capture=0', CAPTURE)).toBe('amount_invalid');
    expect(codeOf('amount=9', CAPTURE)).toBe('amount_ambiguous');
    expect(codeOf('description=x', UPDATE)).toBe('read');
    expect(codeOf('amount=9', UPDATE)).toBe('amount_ambiguous');
    expect(codeOf('currency=eur', UPDATE)).toBe('amount_ambiguous');
    expect(codeOf('confirm=true', UPDATE)).toBe('amount_ambiguous');
  });

  it('refuses a plan for a customer, which old API versions would bill', () => {
    expect(codeOf('email=a%40b.example&source=tok_visa', CUSTOMER)).toBe('read');
    expect(codeOf('source=tok_visa&plan=gold', CUSTOMER)).toBe('amount_ambiguous');
    expect(codeOf('plan[id]=gold', CUSTOMER)).toBe('amount_ambiguous');
  });

  it('reads the amount of a refund as none of its business, and captures no charge later', () => {
    expect(read('payment_intent=pi_1&amount=5', REFUND)).toMatchObject({
      ok: true,
      facts: { amountMinor: null },
    });
    expect(codeOf('amount=5&currency=usd&capture=false', CHARGE)).toBe('capture_not_supported');
    expect(codeOf('amount=5&currency=usd&source=tok_visa', CHARGE)).toBe('read');
  });

  it('takes for the sum what every other form parser takes, and never throws', () => {
    const token = fc.constantFrom(
      'amount',
      '%61mount',
      'Amount',
      'currency',
      'amount[]',
      'amount%5b%5d',
      'metadata[a]',
      'confirm',
      ' amount',
      '=',
      '&',
      ';',
      '1',
      '900',
      'usd',
      'jpy',
      '%',
      '%3d',
      '%26amount%3D5',
      '+',
      '[',
      ']',
      '\0',
      'é',
      'amount=5',
      '&currency=usd',
    );
    const text = fc.oneof(
      fc.array(token, { maxLength: 14 }).map((parts) => parts.join('')),
      fc.array(token, { maxLength: 8 }).map((parts) => `amount=5&currency=usd&${parts.join('')}`),
      fc.string({ unit: 'binary' }),
    );
    let passed = 0;
    fc.assert(
      fc.property(text, (body) => {
        const form = read(body);
        if (!form.ok) return;
        passed += 1;
        const params = new URLSearchParams(body);
        expect(params.getAll('amount')).toEqual([String(form.facts.amountMinor)]);
        expect(params.getAll('currency').map((one) => one.toLowerCase())).toEqual([
          form.facts.currency,
        ]);
        // Nothing that a parser with nesting (Rack, PHP) would file under a name that counts.
        const roots = [...params.keys()].map((name) =>
          (/^[[\]\s]*([^[\]]+)/.exec(name)?.[1] ?? '').trim(),
        );
        expect(roots.filter((root) => root.toLowerCase() === 'amount')).toHaveLength(1);
        // Older parsers split at a semicolon as well.
        expect(
          body.split(/[&;] */).filter((pair) => /^(?:a|%61)mount(?:=|$)/i.test(pair)),
        ).toHaveLength(1);
      }),
      { numRuns: 2_000 },
    );
    expect(passed).toBeGreaterThan(50);
  });
});

describe('the marks of an intent', () => {
  it('are the same in any order, and without entries that have no value', () => {
    expect(
      marksOf([
        ['a', '1'],
        ['b', '2'],
        ['c', ''],
      ]),
    ).toEqual(
      marksOf([
        ['b', '2'],
        ['a', '1'],
      ]),
    );
    expect(marksOf(Object.entries({ a: '1' }))).toEqual(marksOf(new Map([['a', '1']])));
  });

  it('differ wherever the metadata differs', () => {
    const entries = fc.dictionary(
      fc.string({ maxLength: 4 }),
      fc.string({ minLength: 1, maxLength: 4 }),
      { maxKeys: 4 },
    );
    fc.assert(
      fc.property(entries, entries, (a, b) => {
        const sorted = (of: object) =>
          JSON.stringify(Object.entries(of).sort(([x], [y]) => (x < y ? -1 : 1)));
        const same = marksOf(Object.entries(a)).equals(marksOf(Object.entries(b)));
        expect(same).toBe(sorted(a) === sorted(b));
      }),
      { numRuns: 1_000 },
    );
  });
});
