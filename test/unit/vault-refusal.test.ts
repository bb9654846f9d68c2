import { describe, expect, it } from 'vitest';
import { crossedLines } from '../../src/vault/events.ts';
import { KeyedAgents } from '../../src/vault/keyed-agents.ts';
import { ledgerRefusalOf, refusalOf } from '../../src/vault/refusal.ts';

describe('refusals of the vault', () => {
  it('V9: names the cap, what is used, asked and left, and the remedy, under a type of its own', () => {
    const begun = {
      decision: 'spend_cap_exceeded',
      reservationId: null,
      amountMinor: 1000,
      currency: 'usd',
      usedMinor: 9500,
      capMinor: 10000,
      expectedMinor: 9000,
    } as const;
    const refusal = ledgerRefusalOf('spend_cap_exceeded', begun, '0123456789abcdef');
    expect(refusal.status).toBe(402);
    expect(refusal.headers).toMatchObject({ 'stripe-should-retry': 'false' });
    const { error } = JSON.parse(refusal.body);
    expect(error).toMatchObject({ type: 'vault_error', code: 'spend_cap_exceeded' });
    expect(error.message).toContain('is 10000 usd');
    expect(error.message).toContain('9500 are reserved or spent');
    expect(error.message).toContain('1000 were asked for');
    expect(error.message).toContain('500 remain');
    expect(error.message).toContain('raise it (PATCH /vault/keys/0123456789abcdef');
    expect(error.message).toContain('same Idempotency-Key');
    expect(error.message).not.toContain('vk_');
  });

  it.each([
    ['vault_key_unknown', 401],
    ['vault_key_revoked', 401],
    ['vault_key_expired', 401],
    ['vault_key_of_another_account', 401],
    ['endpoint_not_allowed', 403],
    ['vault_key_closed', 403],
    ['period_mismatch', 403],
    ['unknown_payment_intent', 403],
    ['idempotency_key_reused', 409],
    ['idempotency_key_too_old', 409],
    ['idempotency_key_missing', 400],
    ['amount_ambiguous', 400],
    ['bad_target', 400],
    ['body_too_large', 413],
    ['unsupported_media_type', 415],
    ['upstream_failed', 502],
    ['upstream_timeout', 504],
  ] as const)(
    'answers %s with %i and forbids clients to repeat it by themselves',
    (code, status) => {
      const refusal = refusalOf(code);
      expect(refusal.status).toBe(status);
      expect(refusal.headers).toMatchObject({
        'stripe-should-retry': 'false',
        'content-type': 'application/json',
      });
      expect(JSON.parse(refusal.body)).toMatchObject({ error: { type: 'vault_error', code } });
    },
  );

  it('lets a client repeat what nothing was sent of, when the database is away', () => {
    expect(refusalOf('vault_unavailable')).toMatchObject({
      status: 503,
      headers: { 'stripe-should-retry': 'true', 'retry-after': '1' },
    });
  });
});

describe('the lines that a reservation crosses', () => {
  const cap = { keyId: 'k', currency: 'usd', amountMinor: 10, capMinor: 110, expectedMinor: 100 };

  it('are crossed by the one reservation that passes them', () => {
    const crossings = Array.from({ length: 11 }, (_, i) =>
      crossedLines({ ...cap, usedMinor: (i + 1) * 10 }),
    );
    expect(crossings.flatMap((lines, i) => lines.map((line) => `${(i + 1) * 10} ${line}`))).toEqual(
      ['90 80_percent', '110 expected'],
    );
  });

  it('are both crossed by one large sum, and the expected one by no key without a plan', () => {
    expect(crossedLines({ ...cap, amountMinor: 110, usedMinor: 110 })).toEqual([
      '80_percent',
      'expected',
    ]);
    expect(crossedLines({ ...cap, amountMinor: 110, usedMinor: 110, expectedMinor: null })).toEqual(
      ['80_percent'],
    );
  });
});

describe('the connections of keys', () => {
  it('are kept apart, bounded, and never closed while in use', () => {
    const agents = new KeyedAgents(false);
    const busy = agents.take('busy');
    const idle = agents.take('idle');
    expect(idle.agent).not.toBe(busy.agent);
    idle.release();
    for (let i = 0; i < 200; i += 1) agents.take(`key ${i}`).release();
    expect(agents.size).toBeLessThanOrEqual(64);
    expect(agents.take('busy').agent).toBe(busy.agent);
    expect(agents.take('idle').agent).not.toBe(idle.agent);
    agents.close();
    expect(agents.size).toBe(0);
  });
});
