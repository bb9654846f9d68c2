import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { hashKey, newKey } from '../../src/vault-key.ts';
import { KnownKeys, type FindKey } from '../../src/vault/known-keys.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['performance'] });
});
afterEach(() => {
  vi.useRealTimers();
});

const { key, keyId } = newKey('test');
const rotated = `${key.slice(0, -64)}${'0'.repeat(64)}`;
const stored = (secret = key) => ({
  keyId,
  secretHash: hashKey(secret),
  liveMode: false,
  allowedEndpoints: ['GET /v1/charges'],
});
const finding = (find: FindKey) => {
  const spy = vi.fn<FindKey>(find);
  return { keys: new KnownKeys(spy), spy };
};

it('reads a key once for many requests at once and for seconds, then again', async () => {
  const { keys, spy } = finding(async () => stored());
  await Promise.all([1, 2, 3].map(() => keys.authenticate(key)));
  vi.advanceTimersByTime(2_900);
  expect(await keys.authenticate(key)).toMatchObject({ ok: true, key: { keyId, liveMode: false } });
  expect(spy).toHaveBeenCalledTimes(1);
  vi.advanceTimersByTime(200);
  await keys.authenticate(key);
  expect(spy).toHaveBeenCalledTimes(2);
});

it('refuses a wrong secret of a known key, with one query for many guesses', async () => {
  const { keys, spy } = finding(async () => stored());
  await keys.authenticate(key);
  for (let i = 0; i < 20; i += 1) {
    expect(await keys.authenticate(rotated)).toEqual({
      ok: false,
      code: 'vault_key_unknown',
      keyId,
    });
  }
  expect(spy).toHaveBeenCalledTimes(1);
});

it('takes a rotated secret at once, and the old one no longer', async () => {
  let secret = key;
  const { keys } = finding(async () => stored(secret));
  await keys.authenticate(key);
  secret = rotated;
  vi.advanceTimersByTime(150);
  expect(await keys.authenticate(rotated)).toMatchObject({ ok: true });
  expect(await keys.authenticate(key)).toMatchObject({ ok: false });
});

it('remembers no key that is unknown, and no failure of the database', async () => {
  const answers: (() => ReturnType<FindKey>)[] = [
    async () => null,
    () => Promise.reject(new Error('away')),
    async () => stored(),
  ];
  const { keys } = finding(async () => answers.shift()?.() ?? null);
  expect(await keys.authenticate(key)).toEqual({ ok: false, code: 'vault_key_unknown', keyId });
  await expect(keys.authenticate(key)).rejects.toThrow('away');
  expect(await keys.authenticate(key)).toMatchObject({ ok: true });
});

it('asks nobody about what is no vault key', async () => {
  const { keys, spy } = finding(async () => stored());
  expect(await keys.authenticate(null)).toEqual({
    ok: false,
    code: 'vault_key_missing',
    keyId: null,
  });
  for (const text of ['', 'sk_test_1', `${key}0`, key.toUpperCase(), ` ${key}`]) {
    expect(await keys.authenticate(text)).toEqual({
      ok: false,
      code: 'vault_key_unknown',
      keyId: null,
    });
  }
  expect(spy).not.toHaveBeenCalled();
});
