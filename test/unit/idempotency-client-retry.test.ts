import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  judge,
  pauseMs,
  readRetryAfter,
  RETRY_POLICY,
} from '../../src/http/idempotency-client/retry.ts';

describe('pauseMs', () => {
  const policy = { ...RETRY_POLICY, baseDelayMs: 100, maxDelayMs: 1_000 };

  it('is anywhere between nothing and a bound that doubles up to its own', () => {
    const most = [1, 2, 3, 4, 5, 60].map((attempt) =>
      pauseMs(attempt, policy, { retryAfterMs: null, random: 1 }),
    );
    expect(most).toEqual([100, 200, 400, 800, 1_000, 1_000]);
    fc.assert(
      fc.property(fc.nat(2_000), fc.double({ min: 0, max: 1, noNaN: true }), (attempt, random) => {
        const pause = pauseMs(attempt + 1, policy, { retryAfterMs: null, random });
        expect(pause).toBeGreaterThanOrEqual(0);
        expect(pause).toBeLessThanOrEqual(1_000);
      }),
    );
  });

  it('is never shorter than the server wants, and not the same for all', () => {
    const pause = (random: number) => pauseMs(1, policy, { retryAfterMs: 5_000, random });
    expect([pause(0), pause(0.5)]).toEqual([5_000, 5_050]);
  });
});

describe('readRetryAfter', () => {
  const NOW = Date.UTC(2026, 10, 1, 12);
  const read = (value: string, date?: string) =>
    readRetryAfter(
      new Headers({ 'Retry-After': value, ...(date === undefined ? {} : { Date: date }) }),
      NOW,
    );

  it('reads seconds', () => {
    expect([read('0'), read(' 120 ')]).toEqual([0, 120_000]);
  });

  it('reads a date, by the server’s clock where it shows it', () => {
    const at = new Date(NOW + 90_000).toUTCString();
    expect(read(at)).toBe(90_000);
    expect(read(at, new Date(NOW + 60_000).toUTCString())).toBe(30_000);
    expect(read(at, new Date(NOW + 100_000).toUTCString())).toBe(0);
    expect(read('Sunday, 01-Nov-26 12:00:10 GMT')).toBe(10_000);
  });

  it.each(['', 'soon', '-1', '1.5', '1e3', '0x10', '2026-11-01', '01 Nov 2026', 'Foo, bar GMT'])(
    'takes %j for nothing',
    (value) => {
      expect(read(value)).toBeNull();
    },
  );
});

describe('judge', () => {
  it('never asks for a second send of what has its last word', () => {
    fc.assert(
      fc.property(fc.integer({ min: 200, max: 599 }), fc.option(fc.string()), (status, code) => {
        const stored = judge({ status, replayed: true, code }, RETRY_POLICY.retryStatuses);
        expect(stored).toBe(status >= 500 ? 'open' : 'settled');
      }),
    );
  });

  it('gives no key up for a 5xx, and asks for no second send of a 4xx but 408, 425 and 429', () => {
    const verdictOf = (status: number) =>
      judge({ status, replayed: false, code: null }, RETRY_POLICY.retryStatuses);
    const statuses = Array.from({ length: 200 }, (_, index) => 400 + index);
    const settled = statuses.filter((status) => verdictOf(status) === 'settled');
    expect(settled.filter((status) => status >= 500)).toEqual([]);
    const again = statuses.filter((status) => verdictOf(status) === 'again');
    expect(again).toEqual([408, 425, 429, 502, 503, 504]);
  });
});
