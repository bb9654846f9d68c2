import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isForm, readHead } from '../../src/vault/headers.ts';

const KEY = `vk_test_${'0'.repeat(16)}_${'a'.repeat(64)}`;
const BASE = ['Host', 'vault', 'Authorization', `Bearer ${KEY}`];
const codeOf = (...headers: string[]) => {
  const read = readHead([...BASE, ...headers]);
  return read.ok ? 'read' : read.code;
};

describe('the head of a request', () => {
  it('passes on what Stripe needs, byte by byte, and nothing else', () => {
    const read = readHead([
      ...BASE,
      'content-type',
      'application/x-www-form-urlencoded',
      'IDEMPOTENCY-KEY',
      'a  b "c"',
      'X-Attempt-Id',
      'at-1',
      'Stripe-Version',
      '2026-10-28.endive',
      'User-Agent',
      'Stripe/v1 NodeBindings/23',
      'Accept',
      '*/*',
      'X-Stripe-Client-User-Agent',
      '{"lang":"node"}',
      'Cookie',
      'a=b',
      'X-Forwarded-Host',
      'evil.example',
      'Forwarded',
      'host=evil.example',
      'X-HTTP-Method-Override',
      'DELETE',
      'TE',
      'trailers',
      'Proxy-Authorization',
      'x',
      'Keep-Alive',
      'timeout=5',
      'Connection',
      'keep-alive',
      'Content-Length',
      '3',
    ]);
    expect(read).toEqual({
      ok: true,
      head: {
        credential: KEY,
        idempotencyKey: 'a  b "c"',
        attemptId: 'at-1',
        contentType: 'application/x-www-form-urlencoded',
        forward: [
          ['Content-Type', 'application/x-www-form-urlencoded'],
          ['Idempotency-Key', 'a  b "c"'],
          ['X-Attempt-Id', 'at-1'],
          ['Stripe-Version', '2026-10-28.endive'],
          ['User-Agent', 'Stripe/v1 NodeBindings/23'],
          ['Accept', '*/*'],
          ['X-Stripe-Client-User-Agent', '{"lang":"node"}'],
        ],
      },
    });
  });

  it.each([
    ['Authorization', 'Bearer x'],
    ['host', 'other'],
  ])('refuses a second %s', (name, value) => {
    expect(codeOf(name, value)).toBe('bad_header');
  });

  it.each([
    'Idempotency-Key',
    'Content-Length',
    'Content-Type',
    'Transfer-Encoding',
    'Stripe-Version',
    'X-Attempt-Id',
  ])('refuses a doubled %s, equal or not', (name) => {
    const value = name === 'Transfer-Encoding' ? 'chunked' : '1';
    expect(codeOf(name, value, name.toLowerCase(), value)).toBe('bad_header');
  });

  it.each([
    'Idempotency-Key',
    'authorization',
    'close, IDEMPOTENCY-KEY',
    'Content-Type',
    'Content-Length',
    'Stripe-Version',
    'host',
  ])('refuses Connection: %s, which would strip a header that counts', (value) => {
    expect(codeOf('Connection', value)).toBe('bad_header');
    expect(codeOf('Connection', 'close', 'connection', value)).toBe('bad_header');
  });

  it('refuses another account, other codings and both lengths at once', () => {
    expect(codeOf('Stripe-Account', 'acct_1')).toBe('account_header_not_allowed');
    expect(codeOf('stripe-context', 'acct_1')).toBe('account_header_not_allowed');
    expect(codeOf('Transfer-Encoding', 'gzip, chunked')).toBe('bad_header');
    expect(codeOf('Transfer-Encoding', 'identity')).toBe('bad_header');
    expect(codeOf('Transfer-Encoding', 'chunked', 'Content-Length', '1')).toBe('bad_header');
    expect(codeOf('Content-Encoding', 'gzip')).toBe('unsupported_media_type');
  });

  it('takes an Idempotency-Key of 1 to 255 printable characters', () => {
    expect(codeOf('Idempotency-Key', 'k'.repeat(255))).toBe('read');
    expect(codeOf('Idempotency-Key', 'k'.repeat(256))).toBe('idempotency_key_invalid');
    expect(codeOf('Idempotency-Key', '')).toBe('idempotency_key_invalid');
    expect(codeOf('Idempotency-Key', 'k\u00e9')).toBe('idempotency_key_invalid');
    expect(codeOf('Idempotency-Key', 'a\tb')).toBe('idempotency_key_invalid');
    expect(codeOf('User-Agent', 'caf\u00e9')).toBe('bad_header');
    expect(codeOf('Idempotency-Key', KEY)).toBe('bad_header');
    expect(codeOf('X-Attempt-Id', 'sk_live_1')).toBe('bad_header');
  });

  it('reads the key of Bearer, and of Basic as curl -u sends it', () => {
    const credential = (authorization: string) => {
      const read = readHead(['Host', 'vault', 'Authorization', authorization]);
      return read.ok ? read.head.credential : 'refused';
    };
    const basic = (text: string) => `Basic ${Buffer.from(text).toString('base64')}`;
    expect(credential(`bearer ${KEY}`)).toBe(KEY);
    expect(credential(basic(`${KEY}:`))).toBe(KEY);
    expect(credential(basic(`${KEY}:password`))).toBeNull();
    expect(credential(basic(KEY))).toBeNull();
    expect(credential(KEY)).toBeNull();
    expect(credential('')).toBeNull();
    expect(credential(`Digest ${KEY}`)).toBeNull();
    expect(credential(`Bearer ${KEY} ${KEY}`)).toBeNull();
  });

  it('takes forms and nothing else for forms', () => {
    for (const type of [
      'application/x-www-form-urlencoded',
      'application/x-www-form-urlencoded; charset=UTF-8',
      'Application/X-WWW-Form-Urlencoded;charset="utf-8"',
    ]) {
      expect(isForm(type)).toBe(true);
    }
    for (const type of [
      null,
      '',
      'application/json',
      'multipart/form-data; boundary=x',
      'application/x-www-form-urlencoded; charset=utf-16',
      'application/x-www-form-urlencoded, application/json',
      'text/plain; application/x-www-form-urlencoded',
    ]) {
      expect(isForm(type)).toBe(false);
    }
  });

  it('never throws, and forwards each value as it came, once', () => {
    const name = fc.oneof(
      fc.constantFrom(
        'Authorization',
        'Idempotency-Key',
        'connection',
        'User-Agent',
        'Accept',
        'Host',
        'x-attempt-id',
      ),
      fc.string(),
    );
    const headers = fc.array(
      fc.tuple(name, fc.oneof(fc.string(), fc.constantFrom('close', 'accept', KEY))),
      {
        maxLength: 8,
      },
    );
    fc.assert(
      fc.property(headers, (pairs) => {
        const read = readHead(pairs.flat());
        if (!read.ok) return;
        for (const [sent, value] of read.head.forward) {
          const given = pairs.filter(([one]) => one.toLowerCase() === sent.toLowerCase());
          expect(given.map(([, one]) => one)).toEqual([value]);
          expect(sent.toLowerCase()).not.toBe('authorization');
        }
      }),
      { numRuns: 2_000 },
    );
  });
});
