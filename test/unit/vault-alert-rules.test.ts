import { describe, expect, it } from 'vitest';
import type { CapUse, RequestFacts, VaultEvent } from '../../src/vault/events.ts';
import type { RefusalCode } from '../../src/vault/refusal.ts';
import { signatureOf } from '../../src/vault/alert-delivery.ts';
import { alertOf, alertsOfUse } from '../../src/vault/alert-rules.ts';

const NOW = new Date('2026-11-29T12:34:56.000Z');
const TOMORROW = new Date('2026-11-30T00:00:00.000Z');
const REQUEST: RequestFacts = {
  requestId: '00000000-0000-4000-8000-000000000000',
  keyId: 'aaaaaaaaaaaaaaaa',
  method: 'POST',
  path: '/v1/payment_intents',
  idempotencyKey: 'k1',
  attemptId: null,
  namespace: null,
  period: null,
  customerId: null,
  amountMinor: 1_500,
  currency: 'usd',
};
const CAP: CapUse = {
  keyId: 'aaaaaaaaaaaaaaaa',
  currency: 'usd',
  amountMinor: 1_500,
  usedMinor: 10_000,
  capMinor: 11_000,
  expectedMinor: 10_000,
};

function refusal(code: RefusalCode, parts: Partial<RequestFacts> = {}): VaultEvent {
  const cap = code === 'spend_cap_exceeded' ? CAP : null;
  return { kind: 'refused', code, status: 400, request: { ...REQUEST, ...parts }, cap };
}

describe('what alerts', () => {
  it.each<[RefusalCode, string]>([
    ['spend_cap_exceeded', 'spend_cap_exceeded'],
    ['endpoint_not_allowed', 'endpoint_denied'],
    ['idempotency_key_missing', 'idempotency_key_missing'],
    ['vault_key_unknown', 'unknown_or_expired_key'],
    ['vault_key_expired', 'unknown_or_expired_key'],
    ['vault_key_revoked', 'unknown_or_expired_key'],
  ])('a refusal with %s does', (code, kind) => {
    expect(alertOf(refusal(code), NOW)?.kind).toBe(kind);
  });

  it('a refusal that only its client has to read does not', () => {
    expect(alertOf(refusal('amount_missing'), NOW)).toBeNull();
    expect(alertOf(refusal('vault_unavailable'), NOW)).toBeNull();
  });

  it('a crossed line does, and a reply that does not fit', () => {
    const crossed = (line: '80_percent' | 'expected') =>
      alertOf({ kind: 'cap_crossed', line, cap: CAP }, NOW)?.kind;
    expect(crossed('80_percent')).toBe('spend_at_80_percent');
    expect(crossed('expected')).toBe('spend_above_expected');
    const mismatch: VaultEvent = { kind: 'reply_mismatch', mismatch: 'amount', request: REQUEST };
    expect(alertOf(mismatch, NOW)?.kind).toBe('reply_mismatch');
  });
});

describe('a use of a cap that is found later', () => {
  const kinds = (usedMinor: number) =>
    alertsOfUse({ ...CAP, usedMinor }, NOW).map(({ kind }) => kind);

  it('alerts to every line that it stands above, and to the cap itself when Stripe took more', () => {
    expect(kinds(8_799)).toEqual([]);
    expect(kinds(8_800)).toEqual(['spend_at_80_percent']);
    expect(kinds(10_001)).toEqual(['spend_at_80_percent', 'spend_above_expected']);
    expect(kinds(11_000)).not.toContain('spend_above_cap');
    expect(kinds(11_001)).toContain('spend_above_cap');
  });

  it('is the same thing as the reservation that crossed the line', () => {
    const live = alertOf({ kind: 'cap_crossed', line: 'expected', cap: CAP }, NOW);
    const found = alertsOfUse({ ...CAP, usedMinor: 10_500 }, NOW).map(({ onceKey }) => onceKey);
    expect(found).toContain(live?.onceKey);
  });
});

describe('what is one thing', () => {
  const once = (event: VaultEvent, now = NOW) => alertOf(event, now)?.onceKey;

  it('is an exhausted cap, whoever asked, until it is raised', () => {
    const raised: VaultEvent = {
      kind: 'refused',
      code: 'spend_cap_exceeded',
      status: 402,
      request: REQUEST,
      cap: { ...CAP, capMinor: 20_000 },
    };
    const first = once(refusal('spend_cap_exceeded'));
    expect(once(refusal('spend_cap_exceeded', { requestId: 'another' }), TOMORROW)).toBe(first);
    expect(once(raised)).not.toBe(first);
  });

  it('is all that strangers try in a day, however many keys they invent', () => {
    const one = once(refusal('vault_key_unknown', { keyId: 'bbbbbbbbbbbbbbbb' }));
    expect(once(refusal('vault_key_unknown', { keyId: 'cccccccccccccccc' }))).toBe(one);
    expect(once(refusal('vault_key_unknown'), TOMORROW)).not.toBe(one);
  });

  it('is what one key tries in a day, whatever paths it invents', () => {
    const one = once(refusal('endpoint_not_allowed'));
    expect(once(refusal('endpoint_not_allowed', { path: '/v1/payouts' }))).toBe(one);
    expect(once(refusal('endpoint_not_allowed', { keyId: 'dddddddddddddddd' }))).not.toBe(one);
  });
});

describe('an alert of a cap', () => {
  it('V9: names the key, the cap, what is used and what was asked', () => {
    const alert = alertOf(refusal('spend_cap_exceeded'), NOW);
    expect(alert?.message).toBe(
      'vault key aaaaaaaaaaaaaaaa: the cap has no room: 1500 usd were asked for and refused; 10000 of 11000 usd (minor units) are reserved or spent',
    );
    expect(alert?.details).toEqual({
      currency: 'usd',
      asked_minor: 1_500,
      used_minor: 10_000,
      cap_minor: 11_000,
      expected_minor: 10_000,
    });
  });
});

describe('the signature of an alert', () => {
  it('is HMAC-SHA256 over time and body, as its vector says', () => {
    // printf '1796000096.{"id":"alert_1"}' | openssl dgst -sha256 -hmac whsec_vector
    expect(signatureOf('whsec_vector', '{"id":"alert_1"}', new Date(1_796_000_096_999))).toBe(
      't=1796000096,v1=db0b8db73c3db73a84ed857dfb139d999c2a2ac2a3047726f195825e3e7cff34',
    );
  });
});
