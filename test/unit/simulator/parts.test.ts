import { describe, expect, test } from 'vitest';
import { authenticate } from '../../../src/simulator/auth.ts';
import { Faults, seededRandom } from '../../../src/simulator/faults.ts';
import { declineFor, paymentMethodFixture } from '../../../src/simulator/fixtures.ts';
import { readAmount, readCurrency } from '../../../src/simulator/money.ts';
import { Params } from '../../../src/simulator/params.ts';
import { RateLimiter } from '../../../src/simulator/rate-limit.ts';
import { signPayload } from '../../../src/simulator/webhooks.ts';

const target = (endpoint: string) => ({ endpoint, phase: 'body' as const, metadata: () => ({}) });

describe('fault plan', () => {
  const rules = [
    { id: 'a', endpoint: 'payment_intents.*', kind: 'actThenDrop', rate: 0.3 },
    { id: 'b', endpoint: '*', kind: 'status503', rate: 0.3 },
  ] as const;
  const run = (seed: number, own: ConstructorParameters<typeof Faults>[0]) => {
    const faults = new Faults({ seed, rules: own?.rules ?? rules });
    return Array.from(
      { length: 300 },
      () => faults.pick(target('payment_intents.confirm'))?.id ?? '-',
    );
  };

  test('gives the same faults for the same seed and others for another', () => {
    expect(run(1, undefined)).toEqual(run(1, undefined));
    expect(run(1, undefined)).not.toEqual(run(2, undefined));
  });

  test('fires about as often as its rate says', () => {
    const fired = run(5, undefined).filter((id) => id === 'a').length;
    expect(fired).toBeGreaterThan(60);
    expect(fired).toBeLessThan(120);
  });

  test('does not change the luck of a rule when another is put before it', () => {
    const alone = run(1, { rules: [rules[1]] });
    const behind = run(1, { rules });
    expect(behind.map((id, n) => (id === 'a' ? alone[n] : id))).toEqual(alone);
  });

  test('fires on the nth requests only, and stops at its limit', () => {
    const nth = run(1, { rules: [{ id: 'n', endpoint: '*', kind: 'slow', nth: [2, 4] }] });
    expect(nth.slice(0, 6)).toEqual(['-', 'n', '-', 'n', '-', '-']);
    const limited = run(1, { rules: [{ id: 'l', endpoint: '*', kind: 'slow', limit: 2 }] });
    expect(limited.slice(0, 4)).toEqual(['l', 'l', '-', '-']);
  });

  test('is refused when two rules share an id or a rate is no probability', () => {
    expect(() => new Faults({ rules: [rules[0], rules[0]] })).toThrow(/two fault rules/);
    expect(() => new Faults({ rules: [{ ...rules[0], rate: 30 }] })).toThrow(RangeError);
  });

  test('draws evenly between 0 and 1', () => {
    const random = seededRandom('even');
    const drawn = Array.from({ length: 2000 }, random);
    const mean = drawn.reduce((sum, one) => sum + one, 0) / drawn.length;
    expect(mean).toBeGreaterThan(0.47);
    expect(mean).toBeLessThan(0.53);
    expect(drawn.every((one) => one >= 0 && one < 1)).toBe(true);
  });
});

describe('rate limiter', () => {
  test('lets the burst through, then the rate, and never saves more than the burst', () => {
    let now = 0;
    const limiter = new RateLimiter({
      endpoint: { rate: 10, burst: 2 },
      account: { rate: 0, burst: 0 },
      now: () => now,
    });
    const ask = () => limiter.refusal('acct/test', 'e');
    expect([ask(), ask(), ask()]).toEqual([undefined, undefined, 'endpoint-rate']);
    now = 100;
    expect([ask(), ask()]).toEqual([undefined, 'endpoint-rate']);
    now = 60_000;
    expect([ask(), ask(), ask()]).toEqual([undefined, undefined, 'endpoint-rate']);
  });

  test('passes 25 per second evenly spaced without a single refusal', () => {
    let now = 0;
    const limiter = new RateLimiter({
      endpoint: { rate: 25, burst: 1 },
      account: { rate: 100, burst: 100 },
      now: () => now,
    });
    for (let n = 0; n < 500; n += 1) {
      expect(limiter.refusal('acct/test', 'e')).toBeUndefined();
      now += 40;
    }
  });
});

describe('parameters', () => {
  test('have one fingerprint in any order, and another when a value moves to another name', () => {
    expect(new Params('a=1&b=2').fingerprint()).toBe(new Params('b=2&a=1').fingerprint());
    expect(new Params('a=1&b=2').fingerprint()).not.toBe(new Params('a=2&b=1').fingerprint());
    expect(new Params('a=12&b=').fingerprint()).not.toBe(new Params('a=1&b=2').fingerprint());
    expect(new Params('a=1').fingerprint()).not.toBe(new Params('a=1&a=1').fingerprint());
  });

  test('read lists with and without positions', () => {
    expect(new Params('expand[]=a&expand[1]=b&expand=c').list('expand')).toEqual(['a', 'b']);
  });

  test('refuse what is neither true nor false', () => {
    expect(() => new Params('confirm=yes').boolean('confirm')).toThrow(/boolean/);
  });
});

describe('money', () => {
  test.each([
    ['50', 'usd', 50],
    ['50', 'jpy', 50],
    ['99999999', 'huf', 99_999_999],
    ['50000', 'isk', 50_000],
    ['5120', 'kwd', 5120],
    ['1', 'mga', 1],
  ])('takes %s %s', (text, currency, amount) => {
    expect(readAmount(text, currency)).toBe(amount);
  });

  test.each([
    ['49', 'usd'],
    ['174', 'huf'],
    ['17499', 'huf'],
    ['1499', 'czk'],
    ['150', 'isk'],
    ['5121', 'kwd'],
    ['100000000', 'usd'],
    ['0', 'usd'],
    ['1e3', 'usd'],
    [' 500', 'usd'],
    ['constructor', 'usd'],
  ])('refuses %s %s', (text, currency) => {
    expect(() => readAmount(text, currency)).toThrow(/Amount|integer|greater/);
  });

  test('reads a currency in either case and refuses names of object properties', () => {
    expect(readCurrency('USD')).toBe('usd');
    expect(() => readCurrency('constructor')).toThrow(/Invalid currency/);
  });
});

describe('payment methods', () => {
  test.each([
    ['pm_card_visa', 'succeed'],
    ['pm_1Nq7aXLkdIwHu7ix', 'succeed'],
    ['pm_card_constructor', 'succeed'],
    ['pm_card_visa_chargeDeclined', 'decline'],
    ['pm_card_declined_constructor', 'decline'],
    ['pm_card_authenticationRequired', 'authenticate'],
    ['pm_usBankAccount_processing', 'process'],
  ])('%s: %s', (id, kind) => {
    expect(paymentMethodFixture(id)?.behaviour.kind).toBe(kind);
  });

  test.each(['pm_missing', 'pm_missing_1', 'tok_visa', 'pm_', 'pm_a b', ''])(
    '%j does not exist',
    (id) => {
      expect(paymentMethodFixture(id)).toBeUndefined();
    },
  );

  test('a decline has its advice; an unknown code has none', () => {
    expect(declineFor('lost_card')).toMatchObject({
      code: 'card_declined',
      adviceCode: 'confirm_card_data',
    });
    expect(declineFor('expired_card').code).toBe('expired_card');
    expect(declineFor('brand_new_code')).toMatchObject({ code: 'card_declined', adviceCode: null });
  });
});

describe('keys', () => {
  const who = (authorization: string, more = {}) =>
    authenticate({ authorization, ...more }, 'POST');

  test.each([
    ['Bearer sk_test_acctA_1', 'acct_A', false],
    ['Bearer sk_test_acct_A_1', 'acct_A', false],
    ['Bearer rk_live_acctB_xyz', 'acct_B', true],
    [`Basic ${Buffer.from('sk_test_acctA_1:').toString('base64')}`, 'acct_A', false],
  ])('%s belongs to %s', (authorization, account, livemode) => {
    expect(who(authorization)).toEqual({ account, livemode });
  });

  test('act for the connected account that is named', () => {
    expect(who('Bearer sk_test_acctA_1', { 'stripe-account': 'acct_X1' }).account).toBe('acct_X1');
  });
});

test('a webhook signature is the documented HMAC over timestamp and payload', () => {
  expect(signPayload('{}', 'whsec_test', 1_700_000_000)).toBe(
    't=1700000000,v1=35495024f4ef3f94e5a93e22221544c4b75e9a42300cd965ab81cb85cd994e91',
  );
});
