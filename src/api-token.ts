import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';

/** A token of the operator API as its holder sends it, and the part of it that may be shown. */
export interface ApiToken {
  readonly tokenId: string;
  readonly token: string;
}

const ID_BYTES = 8;
const SECRET_BYTES = 32;
const TOKEN = /^cot_([0-9a-f]{16})_[0-9a-f]{64}$/;

/** A new token with 256 random bits. Each call gives another one. */
export function newApiToken(): ApiToken {
  const tokenId = randomBytes(ID_BYTES).toString('hex');
  return { tokenId, token: `cot_${tokenId}_${randomBytes(SECRET_BYTES).toString('hex')}` };
}

/** Which token a text claims to be; null for whatever has not exactly the form of one. Proves nothing. */
export function tokenIdOf(text: string): string | null {
  return TOKEN.exec(text)?.[1] ?? null;
}

/** What is stored of a token: SHA-256 of the whole of it. It has 256 random bits, so it needs no salt. */
export function hashApiToken(token: string): Buffer {
  return createHash('sha256').update(token).digest();
}

/** Whether a token is the one of which the hash was stored, in a time that tells nothing. */
export function isToken(token: string, storedHash: Uint8Array): boolean {
  const hash = hashApiToken(token);
  return storedHash.length === hash.length && timingSafeEqual(hash, storedHash);
}
