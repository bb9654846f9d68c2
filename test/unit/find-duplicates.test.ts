import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { METADATA } from '../../src/domain/metadata.ts';
import type { ListedCharge } from '../../src/payments/refund-gateway.ts';
import type { LabelRules } from '../../src/refunds/charge-label.ts';
import {
  ChargeCollection,
  findDuplicates,
  type CountsOn,
} from '../../src/refunds/find-duplicates.ts';

const UTC: LabelRules = { zone: 'UTC', granularity: 'month' };
const NOBODY: CountsOn = () => false;
const at = (iso: string): number => Date.parse(iso) / 1000;

function charge(id: string, more: Partial<ListedCharge> = {}): ListedCharge {
  return {
    id,
    created: at('2026-11-01T06:00:00Z'),
    status: 'succeeded',
    amountMinor: 1000,
    capturedMinor: 1000,
    refundedMinor: 0,
    disputed: false,
    currency: 'usd',
    customer: 'cus_1',
    paymentIntentId: `pi_${id}`,
    metadata: {},
    ...more,
  };
}

const slot = (period = '2026-11', namespace = 'base', customer = 'cust_1') => ({
  metadata: {
    [METADATA.namespace]: namespace,
    [METADATA.customer]: customer,
    [METADATA.period]: period,
  },
});

function find(
  charges: readonly ListedCharge[],
  how: { rules?: LabelRules; counts?: CountsOn } = {},
) {
  const collection = new ChargeCollection(how.rules ?? UTC);
  for (const one of charges) collection.add(one);
  const found = findDuplicates(collection.all(), how.counts ?? NOBODY);
  const rows = found.duplicates.flatMap(({ kind, kept, extras }) =>
    extras.map(({ chargeId, netMinor }) => `${kind} ${kept.chargeId} ${chargeId} ${netMinor}`),
  );
  return { rows, found };
}

describe('two successes of one slot', () => {
  it('are certain, and the earliest is kept when no slot counts on one', () => {
    const later = charge('b', { ...slot(), created: at('2026-12-20T00:00:00Z') });
    expect(find([later, charge('a', slot())]).rows).toEqual(['certain a b 1000']);
  });

  it('keep the one that the slot counts on, also when it is the later one', () => {
    const later = charge('b', { ...slot(), created: at('2026-11-02T00:00:00Z') });
    const found = find([charge('a', slot()), later], { counts: ({ id }) => id === 'b' });
    expect(found.rows).toEqual(['certain b a 1000']);
  });

  it('are certain with different amounts and currencies too, each given back as it was taken', () => {
    const other = charge('b', { ...slot(), capturedMinor: 700, currency: 'eur' });
    const { rows, found } = find([charge('a', slot()), other]);
    expect(rows).toEqual(['certain a b 700']);
    expect(found.duplicates[0]?.extras[0]?.currency).toBe('eur');
  });

  it('count once when the list shows one of them on two pages', () => {
    expect(find([charge('a', slot()), charge('a', slot())]).rows).toEqual([]);
  });
});

describe('what is no duplicate', () => {
  it.each([
    ['I2: two namespaces of one period', [slot(), slot('2026-11', 'overage')]],
    ['two periods', [slot(), slot('2026-12')]],
    ['two of our customers with one Stripe customer', [slot(), slot('2026-11', 'base', 'cust_2')]],
  ])('%s', (_what, [first, second]) => {
    expect(find([charge('a', first), charge('b', second)]).rows).toEqual([]);
  });

  it.each([
    ['another amount', { capturedMinor: 999 }],
    ['another currency', { currency: 'eur' }],
    ['another customer', { customer: 'cus_2' }],
    ['the next period', { created: at('2026-12-01T00:00:00Z') }],
    ['a failed charge', { status: 'failed' }],
    ['an authorization that was never captured', { capturedMinor: 0 }],
    ['a charge that was given back', { refundedMinor: 1000 }],
    ['a charge that is disputed', { disputed: true }],
  ])('a charge without metadata beside one with %s', (_what, more) => {
    expect(find([charge('a'), charge('b', more)]).rows).toEqual([]);
  });

  it('charges without a customer', () => {
    expect(find([charge('a', { customer: null }), charge('b', { customer: null })]).rows).toEqual(
      [],
    );
  });
});

describe('a charge that does not say what it was for', () => {
  it('is likely extra beside ours of that period, and ours is kept though it is later', () => {
    const ours = charge('b', { ...slot(), created: at('2026-11-20T00:00:00Z') });
    expect(find([charge('a'), ours]).rows).toEqual(['likely b a 1000']);
  });

  it('is likely extra beside ours that was made in the same period for another one (in arrears)', () => {
    expect(find([charge('a'), charge('b', slot('2026-10'))]).rows).toEqual(['likely b a 1000']);
  });

  it('is likely extra once, also beside two of ours', () => {
    const others = [charge('b', slot()), charge('c', slot('2026-11', 'overage'))];
    expect(find([charge('a'), ...others]).rows).toEqual(['likely b a 1000']);
  });

  it('is likely extra beside another such charge, the earliest is kept', () => {
    const later = charge('b', { created: at('2026-11-30T23:59:59Z') });
    expect(find([later, charge('a')]).rows).toEqual(['likely a b 1000']);
  });

  it('is never given back when a slot counts on it', () => {
    expect(find([charge('a'), charge('b', slot())], { counts: () => true }).rows).toEqual([]);
  });

  it('belongs to the period of the billing zone', () => {
    const night = charge('b', { created: at('2026-11-30T23:30:00Z') });
    const berlin: LabelRules = { zone: 'Europe/Berlin', granularity: 'month' };
    expect(find([charge('a'), night]).rows).toHaveLength(1);
    expect(find([charge('a'), night], { rules: berlin }).rows).toEqual([]);
  });
});

describe('the metadata of a job before us', () => {
  const rules: LabelRules = { ...UTC, periodKey: 'month', customerKey: 'user' };
  const label = (user: string, month = '2026-11') => ({ metadata: { user, month } });

  it('makes two of its charges certain', () => {
    const charges = [charge('a', label('cust_1')), charge('b', label('cust_1'))];
    expect(find(charges, { rules }).rows).toEqual(['certain a b 1000']);
  });

  it('makes its charge certain beside ours of the same customer and period', () => {
    const charges = [charge('a', label('cust_1')), charge('b', slot())];
    const counts: CountsOn = ({ id }) => id === 'b';
    expect(find(charges, { rules, counts }).rows).toEqual(['certain b a 1000']);
  });

  it('keeps two of its charges apart that name two users of one Stripe customer', () => {
    const charges = [charge('a', label('u1')), charge('b', label('u2'))];
    expect(find(charges, { rules }).rows).toEqual([]);
  });

  it('leaves it likely beside ours when the user has another id there', () => {
    const charges = [charge('a', label('42')), charge('b', slot())];
    expect(find(charges, { rules }).rows).toEqual(['likely b a 1000']);
  });

  it('says the period also alone, whenever the charge was made', () => {
    const late = charge('b', {
      metadata: { month: '2026-11' },
      created: at('2027-01-05T00:00:00Z'),
    });
    expect(find([charge('a'), late], { rules: { ...UTC, periodKey: 'month' } }).rows).toEqual([
      'likely a b 1000',
    ]);
  });
});

describe('money that has gone back', () => {
  it('is taken off: only what is left of the extra one is to be given back', () => {
    const partly = charge('b', { ...slot(), refundedMinor: 400 });
    const { rows, found } = find([charge('a', slot()), partly]);
    expect(rows).toEqual(['certain a b 600']);
    expect(found.settled).toMatchObject({ refunded: 1, refundedMinorByCurrency: { usd: 400 } });
  });

  it('settles a duplicate: nothing is found, and the sum is told once', () => {
    const back = charge('b', { ...slot(), refundedMinor: 1000 });
    const { rows, found } = find([charge('a', slot()), back, charge('c', { disputed: true })]);
    expect(rows).toEqual([]);
    expect(found.settled).toMatchObject({ refunded: 1, refundedMinorByCurrency: { usd: 1000 } });
  });

  it('makes the other charge the kept one, when the first was given back', () => {
    const back = charge('a', { ...slot(), refundedMinor: 1000 });
    expect(find([back, charge('b', slot()), charge('c', slot())]).rows).toEqual([
      'certain b c 1000',
    ]);
  });
});

describe('whatever charges there are', () => {
  const charges = fc.uniqueArray(
    fc.record({
      id: fc.integer({ min: 1, max: 40 }).map((n) => `ch_${n}`),
      created: fc.constantFrom(at('2026-10-31T00:00:00Z'), at('2026-11-01T06:00:00Z')),
      customer: fc.constantFrom('cus_1', 'cus_2', null),
      refundedMinor: fc.constantFrom(0, 0, 400, 1000),
      disputed: fc.constantFrom(false, false, false, true),
      metadata: fc.constantFrom({}, slot().metadata, slot('2026-10').metadata, {
        user: 'x',
        month: '2026-11',
      }),
    }),
    { selector: ({ id }) => id, maxLength: 12 },
  );

  it('no charge is extra twice, none that is kept or counted on is extra, and one stays', () => {
    fc.assert(
      fc.property(charges, fc.integer({ min: 1, max: 40 }), (made, counted) => {
        const all = made.map(({ id, ...more }) => charge(id, more));
        const rules: LabelRules = { ...UTC, periodKey: 'month', customerKey: 'user' };
        const { found } = find(all, { rules, counts: ({ id }) => id === `ch_${counted}` });
        const extras = found.duplicates.flatMap((one) =>
          one.extras.map(({ chargeId }) => chargeId),
        );
        const kept = new Set(found.duplicates.map((one) => one.kept.chargeId));
        expect(new Set(extras).size).toBe(extras.length);
        expect(extras.filter((id) => kept.has(id) || id === `ch_${counted}`)).toEqual([]);
        for (const { extras: some } of found.duplicates) {
          expect(some.every(({ netMinor }) => netMinor > 0)).toBe(true);
        }
      }),
    );
  });
});
