import { readPolicy, type Policy } from './endpoints.ts';
import { matchesHash, parseKey } from '../vault-key.ts';

/** What the proxy needs of a stored key. Whether it is revoked, expired or closed the ledger decides, every time. */
interface StoredKey {
  readonly keyId: string;
  readonly secretHash: Buffer;
  readonly liveMode: boolean;
  readonly allowedEndpoints: readonly string[];
}

/** Reads a key by its public part; null when there is none. Throws when the database gives no answer. */
export type FindKey = (keyId: string) => Promise<StoredKey | null>;

interface KnownKey {
  readonly keyId: string;
  readonly liveMode: boolean;
  readonly policy: Policy;
}

export type Authentication =
  | { readonly ok: true; readonly key: KnownKey }
  /** keyId is the public part as sent, null when it was no vault key at all */
  | {
      readonly ok: false;
      readonly code: 'vault_key_missing' | 'vault_key_unknown';
      readonly keyId: string | null;
    };

interface Remembered {
  readonly key: Promise<(KnownKey & { readonly secretHash: Buffer }) | null>;
  readonly readAtMs: number;
}

/** What never changes of a key, or changes by rotation alone: read again this often. */
const FRESH_MS = 3_000;
/** Keys remembered; the oldest go. */
const MAX_REMEMBERED = 1_000;

/** Tells who sends. Remembers keys for seconds; a secret that does not fit what is remembered is read anew. */
export class KnownKeys {
  readonly #find: FindKey;
  readonly #remembered = new Map<string, Remembered>();

  constructor(find: FindKey) {
    this.#find = find;
  }

  /** Whose key this is. Throws when the database gives no answer. */
  async authenticate(credential: string | null): Promise<Authentication> {
    if (credential === null) return { ok: false, code: 'vault_key_missing', keyId: null };
    const parsed = parseKey(credential);
    if (parsed === null) return { ok: false, code: 'vault_key_unknown', keyId: null };
    const { keyId } = parsed;
    const nowMs = performance.now();
    const remembered = this.#remembered.get(keyId);
    if (remembered !== undefined && nowMs - remembered.readAtMs < FRESH_MS) {
      const key = await remembered.key;
      if (key !== null && matchesHash(credential, key.secretHash)) return { ok: true, key };
      // Read just now: whoever guesses secrets does not get a query for each.
      if (remembered.readAtMs > nowMs - GUESS_MS)
        return { ok: false, code: 'vault_key_unknown', keyId };
    }
    const key = await this.#read(keyId, nowMs);
    if (key !== null && matchesHash(credential, key.secretHash)) return { ok: true, key };
    return { ok: false, code: 'vault_key_unknown', keyId };
  }

  async #read(keyId: string, readAtMs: number): Promise<Awaited<Remembered['key']>> {
    const key = this.#load(keyId);
    this.#remembered.delete(keyId);
    this.#remembered.set(keyId, { key, readAtMs });
    const oldest = this.#remembered.keys().next();
    if (this.#remembered.size > MAX_REMEMBERED && oldest.done !== true)
      this.#remembered.delete(oldest.value);
    try {
      const found = await key;
      // A key that does not exist may be made in the next moment.
      if (found === null) this.#forget(keyId, key);
      return found;
    } catch (error) {
      this.#forget(keyId, key);
      throw error;
    }
  }

  async #load(keyId: string): Promise<Awaited<Remembered['key']>> {
    const stored = await this.#find(keyId);
    if (stored === null) return null;
    const { liveMode, secretHash } = stored;
    return { keyId, liveMode, secretHash, policy: readPolicy(stored.allowedEndpoints) };
  }

  #forget(keyId: string, key: Remembered['key']): void {
    if (this.#remembered.get(keyId)?.key === key) this.#remembered.delete(keyId);
  }
}

/** Wrong secrets for a key that exists cost one query in this time. A rotated secret is good after it. */
const GUESS_MS = 100;
