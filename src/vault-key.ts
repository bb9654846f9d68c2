import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto';

export type VaultMode = 'test' | 'live';

/** The public half of a key, 16 hex digits: it names the key in the database, in logs and in answers. */
export type VaultKeyId = string;

/** A key as a client sends it, `vk_test_<id>_<secret>`, and the part of it that may be shown. */
export interface VaultKey {
  readonly keyId: VaultKeyId;
  readonly key: string;
}

const ID_BYTES = 8;
const SECRET_BYTES = 32;
const KEY = /^vk_(test|live)_([0-9a-f]{16})_[0-9a-f]{64}$/;

/** A new key with 256 random bits. Each call gives another one. */
export function newKey(mode: VaultMode): VaultKey {
  return assemble({ mode, id: randomBytes(ID_BYTES), secret: randomBytes(SECRET_BYTES) });
}

/**
 * The key of a billing run: a pure function of the token that the vault and the workers share, so that each of them
 * has it and nobody sends it. The same inputs give the same key; another token gives another secret and the same id.
 */
export function deriveRunKey(
  runToken: string,
  mode: VaultMode,
  run: { readonly namespace: string; readonly period: string },
): VaultKey {
  const parts = ['chargeonce run key', mode, run.namespace, run.period];
  return assemble({
    mode,
    // Not of the token: a rotated token must find the run's key again, with its counts.
    id: createHash('sha256')
      .update(framed([...parts, 'id']))
      .digest()
      .subarray(0, ID_BYTES),
    secret: createHmac('sha256', runToken)
      .update(framed([...parts, 'secret']))
      .digest(),
  });
}

/** Which key a text claims to be; null for whatever has not exactly the form of one. Proves nothing about its secret. */
export function parseKey(text: string): { keyId: VaultKeyId; mode: VaultMode } | null {
  const [, mode, keyId] = KEY.exec(text) ?? [];
  if (keyId === undefined || (mode !== 'test' && mode !== 'live')) return null;
  return { keyId, mode };
}

/** What is stored of a key: SHA-256 of the whole of it. A key has 256 random bits, so it needs no salt. */
export function hashKey(key: string): Buffer {
  return createHash('sha256').update(key).digest();
}

/** Whether two texts are equal, in a time that tells nothing of where they differ, nor of their lengths. */
export function keysEqual(left: string, right: string): boolean {
  return timingSafeEqual(hashKey(left), hashKey(right));
}

/** Whether a key is the one of which the hash was stored, in a time that tells nothing. */
export function matchesHash(key: string, storedHash: Uint8Array): boolean {
  const hash = hashKey(key);
  return storedHash.length === hash.length && timingSafeEqual(hash, storedHash);
}

function assemble(from: { mode: VaultMode; id: Buffer; secret: Buffer }): VaultKey {
  const keyId = from.id.toString('hex');
  return { keyId, key: `vk_${from.mode}_${keyId}_${from.secret.toString('hex')}` };
}

/** Each part behind its length in bytes: joined by a separator, two runs could share a key. */
function framed(parts: readonly string[]): string {
  return parts.map((part) => `${Buffer.byteLength(part)}:${part},`).join('');
}
