import fc from 'fast-check';
import { describe, expect, it, vi } from 'vitest';
import {
  idempotencyKey,
  legacyStableKey,
  type ChargeOperation,
  type IdempotencyKeyParts,
} from '../../src/domain/idempotency-key.ts';
import { runRef, slotRef } from '../support/names.ts';

const parts = (more: Partial<IdempotencyKeyParts> = {}): IdempotencyKeyParts => ({
  account: 'acct_1',
  mode: 'test',
  ...slotRef('cus_123'),
  operation: 'create',
  generation: 1,
  ...more,
});

/** Parts that no parser would let through: the key must hold up by itself. */
const forged = (given: Readonly<Record<string, string | number>>) =>
  idempotencyKey({ ...parts(), ...given });

describe('idempotencyKey', () => {
  it.each<[string, Partial<IdempotencyKeyParts>]>([
    ['b4fbb90c1409b55db0e6c563b8eab8c0637f67bff9ac0f9577187a37b0f68d32', {}],
    ['06f5e6401f26b1204bf253e7fbbddf69c61d985fc7b5ba0ad231d7b8c0c6bbd3', { operation: 'confirm' }],
    [
      'd7a4a168c17027b732bc631454b67ad865bdbff5a336cafc932b59f669a14259',
      { operation: 'confirm', generation: 2 },
    ],
    ['cd3bd67e139da80f84a930cae723f7f14caf2d02e60c2dd1002b47e5748653d7', { mode: 'live' }],
  ])('N8: is bill.v1.%s in every build for %o', (hash, more) => {
    expect(idempotencyKey(parts(more))).toBe(`bill.v1.${hash}`);
  });

  it('L1: differs where parts joined by a separator would share a key', () => {
    const keyOf = (customerId: string, period: string) => forged({ customerId, period });
    expect(keyOf('cus_a:2026', '02')).not.toBe(keyOf('cus_a', '2026:02'));
  });

  it('L2, L3: differs where parts joined without a delimiter would share a key', () => {
    const keyOf = (account: string, namespace: string) => forged({ account, namespace });
    expect(keyOf('ab', 'c')).not.toBe(keyOf('a', 'bc'));
  });

  it('L5: keeps the whole hash: 64 hex digits', () => {
    expect(idempotencyKey(parts())).toMatch(/^bill\.v1\.[0-9a-f]{64}$/);
  });

  it('D1, D2: has its own value for every operation and generation', () => {
    const keys = (['create', 'confirm'] as ChargeOperation[]).flatMap((operation) =>
      [1, 2, 3, 12].map((generation) => idempotencyKey(parts({ operation, generation }))),
    );
    expect(new Set(keys).size).toBe(keys.length);
  });

  it('B6, I6: is the same two seconds later', () => {
    const before = idempotencyKey(parts());
    vi.useFakeTimers({ now: Date.now() + 2_000 });
    const after = idempotencyKey(parts());
    vi.useRealTimers();
    expect(after).toBe(before);
  });

  const anyParts = fc.record({
    account: fc.string(),
    mode: fc.constantFrom('test' as const, 'live' as const),
    namespace: fc.string(),
    customerId: fc.string(),
    period: fc.string(),
    operation: fc.constantFrom('create' as const, 'confirm' as const),
    generation: fc.integer({ min: 1, max: 99 }),
  });

  it('A3: is a function of the business alone: equal parts, equal key', () => {
    fc.assert(
      fc.property(anyParts, (given) => {
        const reordered = Object.fromEntries(Object.entries(given).toReversed());
        expect(forged(reordered)).toBe(forged(given));
      }),
      { numRuns: 2_000 },
    );
  });

  it('differs whenever one part differs', () => {
    fc.assert(
      fc.property(anyParts, anyParts, (a, b) => {
        const same = JSON.stringify(a) === JSON.stringify(b);
        expect(forged(a) === forged(b)).toBe(same);
      }),
      { numRuns: 5_000 },
    );
  });

  it('B2: takes no notice of anything that is not one of its parts', () => {
    fc.assert(
      fc.property(anyParts, (given) => {
        const noise = { ...given, attempt: 7, workflowRunId: 'x', now: Date.now() };
        expect(forged(noise)).toBe(forged(given));
      }),
      { numRuns: 1_000 },
    );
  });

  it('is a header value of at most 255 visible ASCII characters', () => {
    fc.assert(
      fc.property(anyParts, (given) => {
        expect(forged(given)).toMatch(/^[\x21-\x7e]{1,255}$/);
      }),
      { numRuns: 1_000 },
    );
  });

  it('is apart for two namespaces and two periods of one customer', () => {
    const keys = [runRef('2026-09'), runRef('2026-10'), runRef('2026-09', 'overage')].map((run) =>
      idempotencyKey(parts(run)),
    );
    expect(new Set(keys).size).toBe(3);
  });
});

describe('legacyStableKey', () => {
  it.each([
    ['okhttp-billing', 'fd345a7a3f8472e340b85f27b81aa8c0'],
    ['ktor-billing', 'd9bfdb4b689e9136480928bf48bc4670'],
    ['dropwizard-billing', 'a5a30ef7d22b27c32ea24b707aa53eb0'],
    ['netty-billing', '21401377e0b69dd7945124f81c128a48'],
  ])('of cus_123 in 2026-09 for %s is %s', (vendor, key) => {
    expect(legacyStableKey('cus_123', '2026-09', vendor)).toBe(key);
  });

  it('L1: lets two customers share a key, which is why it was replaced', () => {
    expect(legacyStableKey('cus_a:2026', '02', 'base')).toBe('40906abe0f897521ebde0b7a18d06842');
    expect(legacyStableKey('cus_a', '2026:02', 'base')).toBe('40906abe0f897521ebde0b7a18d06842');
  });
});
