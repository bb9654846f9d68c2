import { describe, expect, test } from 'vitest';
import { compareCustomer, type CustomerCase } from '../../src/audit/compare-customer.ts';
import type { AuditedCustomer, AuditedSlot } from '../../src/audit/database-witness.ts';
import { FindingList } from '../../src/audit/finding-list.ts';
import type { Finding, Severity } from '../../src/audit/report.ts';
import { differingCurrencies, Sums } from '../../src/audit/sums.ts';
import type { CustomerHistory, ProviderIntent } from '../../src/audit/witnesses.ts';

const SLOT: AuditedSlot = {
  state: 'charged',
  generation: 1,
  key: 'key-confirm',
  paymentIntentId: 'pi_1',
  chargeId: 'ch_1',
  reason: null,
  version: '1',
};
const PLANNED: AuditedCustomer = {
  stripeCustomerId: 'cus_1',
  amountMinor: 500,
  currency: 'usd',
  slot: SLOT,
  generations: [
    {
      key: 'key-create',
      operation: 'create',
      generation: 1,
      outcome: 'created',
      chargeId: null,
      problem: null,
    },
    {
      key: 'key-confirm',
      operation: 'confirm',
      generation: 1,
      outcome: 'charged',
      chargeId: 'ch_1',
      problem: null,
    },
  ],
  logged: [{ amountMinor: 500, currency: 'usd' }],
  resolvedCharge: null,
};
const INTENT: ProviderIntent = {
  paymentIntentId: 'pi_1',
  customerId: 'ada',
  stripeCustomerId: 'cus_1',
  currency: 'usd',
  status: 'succeeded',
  succeeded: [{ chargeId: 'ch_1', amountMinor: 500 }],
  pending: false,
  confirmed: true,
  metadataKey: 'key-create',
};
const CHARGE = { paymentIntentId: 'pi_1', chargeId: 'ch_1', amountMinor: 500, currency: 'usd' };
const HISTORY: CustomerHistory = {
  customerId: 'ada',
  temporalRuns: 1,
  charges: [CHARGE],
  returned: 'charged',
  open: false,
  partial: false,
};
const AGREED: CustomerCase = {
  customerId: 'ada',
  planned: PLANNED,
  intents: [INTENT],
  history: HISTORY,
  runState: 'completed',
  providerRead: true,
  whole: true,
};

function kinds(parts: Partial<CustomerCase>): string[] {
  return compareCustomer({ ...AGREED, ...parts }).map(({ kind }) => kind);
}

function withSlot(parts: Partial<AuditedSlot>): AuditedCustomer {
  return { ...PLANNED, slot: { ...SLOT, ...parts } };
}

test('finds nothing where the three witnesses agree', () => {
  expect(kinds({})).toEqual([]);
});

describe('what Temporal remembers', () => {
  test('two successful charges in the histories are a double charge, even when the provider shows one', () => {
    const charges = [CHARGE, { ...CHARGE, chargeId: 'ch_2' }];
    expect(kinds({ history: { ...HISTORY, charges } })).toEqual([
      'charged_twice',
      'history_differs',
    ]);
  });

  test.each([
    ['amount', { amountMinor: 501 }],
    ['currency', { currency: 'eur' }],
    ['charge', { chargeId: 'ch_9' }],
    ['PaymentIntent', { paymentIntentId: 'pi_9' }],
  ])('an activity that answered another %s than the slot contradicts it', (_, parts) => {
    const history = { ...HISTORY, charges: [{ ...CHARGE, ...parts }] };
    expect(kinds({ history })).toEqual(['history_differs']);
  });

  test('a charge that an activity answered contradicts a slot without one', () => {
    const planned: AuditedCustomer = {
      ...withSlot({ state: 'declined', chargeId: null, reason: 'card_declined' }),
      generations: PLANNED.generations.map((one) => ({
        ...one,
        outcome: 'declined',
        chargeId: null,
      })),
      logged: [],
    };
    expect(kinds({ planned, intents: [] })).toEqual(['history_differs']);
  });

  test('a charged slot without any remembered answer is contradicted by a whole history only', () => {
    const history = { ...HISTORY, charges: [], returned: 'indeterminate' };
    expect(kinds({ history })).toEqual(['history_differs']);
    expect(kinds({ history: { ...history, partial: true } })).toEqual([]);
    expect(kinds({ history: { ...history, open: true } })).toEqual([]);
    expect(kinds({ history: null })).toEqual([]);
  });
});

test('a charge that a person resolved needs no activity that answered it', () => {
  const history = { ...HISTORY, charges: [], returned: 'indeterminate' };
  const resolved = { ...PLANNED, resolvedCharge: PLANNED.slot?.chargeId ?? null };
  expect(kinds({ history, planned: resolved })).toEqual([]);
  const another = { ...PLANNED, resolvedCharge: 'ch_9' };
  expect(kinds({ history, planned: another })).toEqual(['history_differs']);
});

test('a success after a refusal leaves the refusal to its key, and needs one', () => {
  const refused = (outcome: string): AuditedCustomer => ({
    ...PLANNED,
    generations: PLANNED.generations.map((one) =>
      one.operation === 'confirm' ? { ...one, outcome, chargeId: null } : one,
    ),
  });
  expect(kinds({ planned: refused('declined') })).toEqual([]);
  expect(kinds({ planned: refused('absent') })).toEqual(['generation_differs']);
});

test('a provider that could not be read is not taken for one that has nothing', () => {
  expect(kinds({ intents: [], providerRead: false })).toEqual([]);
  expect(kinds({ intents: [] })).toEqual(['charged_in_database_only']);
});

test('another currency at the provider than the item has is found', () => {
  expect(kinds({ intents: [{ ...INTENT, currency: 'eur' }] })).toEqual(['differs_from_item']);
});

test('a payment still under way outside the plan is a disagreement, one that never moved is a note', () => {
  const intent = { ...INTENT, succeeded: [], status: 'processing', pending: true };
  const outside = { ...AGREED, planned: null, history: null };
  expect(compareCustomer({ ...outside, intents: [intent] })[0]?.severity).toBe('disagreement');
  expect(
    compareCustomer({ ...outside, intents: [{ ...intent, pending: false }] })[0]?.severity,
  ).toBe('open');
});

test('each finding says what all three witnesses say', () => {
  const [finding] = compareCustomer({
    ...AGREED,
    intents: [INTENT, { ...INTENT, paymentIntentId: 'pi_2' }],
  });
  expect(finding).toMatchObject({
    kind: 'charged_twice',
    customerId: 'ada',
    database: 'charged 500 usd ch_1',
    provider: 'pi_1 succeeded 500 usd; pi_2 succeeded 500 usd',
    temporal: 'returned charged, ch_1 500 usd',
  });
});

describe('a long list of findings', () => {
  const finding = (severity: Severity, customerId: string): Finding => ({
    kind: 'open_outcome',
    severity,
    customerId,
    message: '',
    database: '',
    provider: '',
    temporal: '',
  });

  test('is kept with a bound, counted without one, disagreements first', () => {
    const list = new FindingList();
    for (let n = 0; n < 2_000; n += 1) list.add(finding('open', `open-${n}`));
    list.add(finding('disagreement', 'ada'));
    expect(list.total).toBe(2_001);
    expect(list.byKind).toEqual({ open_outcome: 2_001 });
    expect(list.kept()).toHaveLength(501);
    expect(list.kept()[0]?.customerId).toBe('ada');
  });
});

describe('sums', () => {
  test('stay exact beyond the integers of a number, and are refused as numbers there', () => {
    const sums = new Sums();
    sums.add('usd', Number.MAX_SAFE_INTEGER);
    sums.add('usd', 2);
    expect(sums.get('usd')).toBe(9_007_199_254_740_993n);
    expect(() => sums.toNumbers()).toThrow('beyond 2^53');
  });

  test('differ by currency, also where one side has none of it', () => {
    const a = new Sums();
    const b = new Sums();
    a.add('usd', 5);
    b.add('usd', 5);
    b.add('eur', 1);
    expect(differingCurrencies(a, b)).toEqual(['eur']);
  });
});
