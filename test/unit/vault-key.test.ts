import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  deriveRunKey,
  hashKey,
  keysEqual,
  matchesHash,
  newKey,
  parseKey,
} from '../../src/vault-key.ts';

const TOKEN = 'a run token of at least thirty-two characters';
const RUN = { namespace: 'base', period: '2026-11' };

describe('the key of a run', () => {
  it('is the same wherever it is derived, and is pinned by a vector', () => {
    expect(deriveRunKey(TOKEN, 'test', RUN)).toEqual(deriveRunKey(TOKEN, 'test', { ...RUN }));
    expect(deriveRunKey(TOKEN, 'test', RUN)).toEqual({
      keyId: '371a150510b8582d',
      key: 'vk_test_371a150510b8582d_4ac0bb4cccd4253ff1b13b48156df73525fe4652862544ca7e3a109b5e2f3553',
    });
  });

  it('keeps its id and changes its secret when the token is rotated', () => {
    const [before, after] = [TOKEN, `${TOKEN}, rotated`].map((t) => deriveRunKey(t, 'test', RUN));
    expect(after?.keyId).toBe(before?.keyId);
    expect(after?.key).not.toBe(before?.key);
  });

  it('differs for another mode, namespace and period, also where the joined texts agree', () => {
    const keys = [
      deriveRunKey(TOKEN, 'test', RUN),
      deriveRunKey(TOKEN, 'live', RUN),
      deriveRunKey(TOKEN, 'test', { ...RUN, namespace: 'overage' }),
      deriveRunKey(TOKEN, 'test', { ...RUN, period: '2026-12' }),
      deriveRunKey(TOKEN, 'test', { namespace: 'base2', period: '026-11' }),
      deriveRunKey(TOKEN, 'test', { namespace: 'base,7:2', period: '026-11' }),
    ];
    expect(new Set(keys.map(({ keyId }) => keyId)).size).toBe(keys.length);
    expect(new Set(keys.map(({ key }) => key.slice(-64))).size).toBe(keys.length);
  });

  it('has the form of every key', () => {
    const { key, keyId } = deriveRunKey(TOKEN, 'live', RUN);
    expect(parseKey(key)).toEqual({ keyId, mode: 'live' });
  });
});

describe('a new key', () => {
  it('has 256 random bits that no other one has', () => {
    const keys = Array.from({ length: 100 }, () => newKey('test'));
    expect(new Set(keys.map(({ key }) => key.slice(-64))).size).toBe(100);
    for (const { key, keyId } of keys) expect(parseKey(key)).toEqual({ keyId, mode: 'test' });
  });
});

describe('parseKey', () => {
  it('refuses whatever is not exactly a key', () => {
    const { key } = newKey('test');
    const others = [
      '',
      ` ${key}`,
      `${key}\n`,
      `${key}0`,
      key.slice(0, -1),
      key.toUpperCase(),
      key.replace('vk_test', 'vk_prod'),
      key.replace('vk_', 'sk_'),
      'sk_test_123',
    ];
    for (const text of others) expect(parseKey(text)).toBeNull();
  });

  it('answers null for any other text and never throws', () => {
    fc.assert(
      fc.property(fc.string(), (text) => {
        expect(parseKey(text)).toBeNull();
      }),
    );
  });
});

describe('the comparison of keys', () => {
  it('knows equal from different, whatever the lengths', () => {
    expect(keysEqual('abc', 'abc')).toBe(true);
    expect(keysEqual('abc', 'abd')).toBe(false);
    expect(keysEqual('abc', 'abcd')).toBe(false);
    expect(keysEqual('', 'a')).toBe(false);
  });

  it('finds a key by its stored hash, and no other one', () => {
    const { key } = newKey('test');
    expect(matchesHash(key, hashKey(key))).toBe(true);
    expect(matchesHash(newKey('test').key, hashKey(key))).toBe(false);
    expect(matchesHash(key, hashKey(key).subarray(1))).toBe(false);
  });
});
