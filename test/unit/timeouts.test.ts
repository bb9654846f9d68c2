import { describe, expect, it } from 'vitest';
import {
  assertTimeouts,
  HEARTBEAT_TIMEOUT_MS,
  CHARGE_START_TO_CLOSE_MS,
  SHUTDOWN_GRACE_MS,
  STRIPE_TIMEOUT_MS,
} from '../../src/domain/timeouts.ts';

describe('assertTimeouts', () => {
  it('accepts the defaults and everything the configuration lets through', () => {
    for (const timeoutMs of [1_000, STRIPE_TIMEOUT_MS, 35_000])
      expect(() => assertTimeouts(timeoutMs)).not.toThrow();
  });

  it('refuses a Stripe time-out that outlasts start-to-close or the shutdown grace', () => {
    expect(() => assertTimeouts(CHARGE_START_TO_CLOSE_MS / 5)).toThrow('start-to-close');
    expect(() => assertTimeouts(SHUTDOWN_GRACE_MS)).toThrow(RangeError);
  });

  it('notices a lost worker before the charge would be given up', () => {
    expect(HEARTBEAT_TIMEOUT_MS).toBeLessThan(CHARGE_START_TO_CLOSE_MS);
  });
});
