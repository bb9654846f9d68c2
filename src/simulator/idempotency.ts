import type { VirtualClock } from './clock.ts';
import { ApiError, keyInUse, keyMismatch } from './errors.ts';
import type { Journal } from './journal.ts';
import type { Store, Tenant } from './store.ts';

/** Stripe promises 24 h; less would be a simulator that lies. https://docs.stripe.com/api/idempotent_requests */
export const MIN_RETENTION_MS = 24 * 60 * 60 * 1000;
const MAX_KEY_LENGTH = 255;
// Forgotten keys are swept so often (in new keys), so that memory does not grow with a long-lived simulator.
const SWEEP_EVERY = 10_000;

/** What a request is compared by: method, path and parsed parameters, whatever their order. */
export interface Fingerprint {
  readonly path: string;
  readonly params: string;
}

/** The first result under a key, sent again byte for byte. */
export interface SavedReply {
  readonly status: number;
  readonly body: Buffer;
  readonly requestId: string;
}

interface KeyEntry {
  readonly fingerprint: Fingerprint;
  readonly startedMs: number;
  /** Undefined while the first request runs. */
  saved:
    | { readonly status: number; readonly requestId: string; readonly body: Buffer | undefined }
    | undefined;
}

interface KeyRow {
  readonly fingerprint: Fingerprint;
  readonly startedMs: number;
  readonly status: number;
  readonly requestId: string;
  readonly body: string;
}

/** v1 keys of all tenants. Not saved: what is refused before the execution begins. */
export class IdempotencyStore {
  readonly #tenants = new Map<string, Map<string, KeyEntry>>();
  readonly #store: Store;
  readonly #journal: Journal | undefined;
  readonly #clock: VirtualClock;
  readonly #retentionMs: number;
  #sinceSweep = 0;

  constructor(
    store: Store,
    journal: Journal | undefined,
    at: { clock: VirtualClock; retentionMs: number },
  ) {
    if (at.retentionMs < MIN_RETENTION_MS) {
      throw new RangeError('idempotencyRetentionMs must be at least 24 h, as at Stripe');
    }
    this.#store = store;
    this.#journal = journal;
    this.#clock = at.clock;
    this.#retentionMs = at.retentionMs;
    for (const row of journal?.rows('key') ?? []) this.#restore(row.tenant, row.id, row.json);
  }

  /** The saved reply of this key, or undefined when the request is to be executed. Throws on misuse and while in flight. */
  lookUp(tenant: Tenant, key: string, request: Fingerprint): SavedReply | undefined {
    const entry = this.#keys(tenant.id).get(key);
    if (entry === undefined || this.#expired(entry)) return undefined;
    const first = entry.fingerprint;
    if (first.path !== request.path) throw keyMismatch(key, 'endpoint', first.path);
    if (first.params !== request.params) throw keyMismatch(key, 'parameters', first.path);
    if (entry.saved === undefined) throw keyInUse(key);
    return { ...entry.saved, body: entry.saved.body ?? this.#readBody(tenant.id, key) };
  }

  /** Marks the key as in flight. */
  begin(tenant: Tenant, key: string, fingerprint: Fingerprint): void {
    this.#keys(tenant.id).set(key, {
      fingerprint,
      startedMs: this.#clock.nowMs(),
      saved: undefined,
    });
    this.#sinceSweep += 1;
    if (this.#sinceSweep >= SWEEP_EVERY) this.sweep();
  }

  /** Saves the result of the execution, in the same transaction as its effects. */
  finish(tenant: Tenant, key: string, reply: SavedReply): void {
    const entry = this.#keys(tenant.id).get(key);
    if (entry === undefined) return;
    const { status, requestId, body } = reply;
    // With a journal the bytes stay on disk: two replies per customer are most of the memory otherwise.
    entry.saved = { status, requestId, body: this.#journal === undefined ? body : undefined };
    const row: KeyRow = {
      fingerprint: entry.fingerprint,
      startedMs: entry.startedMs,
      status,
      requestId,
      body: body.toString('utf8'),
    };
    this.#store.persist({ kind: 'key', tenant: tenant.id, id: key, json: JSON.stringify(row) });
  }

  /** Forgets a key whose request never began to execute. */
  abandon(tenant: Tenant, key: string): void {
    this.#keys(tenant.id).delete(key);
  }

  /** Forgets every key that is old enough; it will execute again. */
  sweep(): number {
    this.#sinceSweep = 0;
    let count = 0;
    for (const [tenantId, keys] of this.#tenants) {
      for (const [key, entry] of keys) {
        if (!this.#expired(entry)) continue;
        keys.delete(key);
        this.#journal?.remove('key', tenantId, key);
        count += 1;
      }
    }
    return count;
  }

  clear(): void {
    this.#tenants.clear();
  }

  #expired(entry: KeyEntry): boolean {
    return entry.saved !== undefined && this.#clock.nowMs() - entry.startedMs >= this.#retentionMs;
  }

  #readBody(tenantId: string, key: string): Buffer {
    const json = this.#journal?.read('key', tenantId, key);
    if (json === undefined) throw new Error(`the saved reply of ${key} is gone from the journal`);
    const row: KeyRow = JSON.parse(json);
    return Buffer.from(row.body, 'utf8');
  }

  #restore(tenantId: string, key: string, json: string): void {
    const { fingerprint, startedMs, status, requestId }: KeyRow = JSON.parse(json);
    const saved = { status, requestId, body: undefined };
    this.#keys(tenantId).set(key, { fingerprint, startedMs, saved });
  }

  #keys(tenantId: string): Map<string, KeyEntry> {
    const known = this.#tenants.get(tenantId);
    if (known !== undefined) return known;
    const keys = new Map<string, KeyEntry>();
    this.#tenants.set(tenantId, keys);
    return keys;
  }
}

/** The key of a POST, or null without one. */
export function readKey(header: string | undefined): string | null {
  if (header === undefined) return null;
  if (header.length >= 1 && header.length <= MAX_KEY_LENGTH) return header;
  throw new ApiError(400, {
    type: 'invalid_request_error',
    message: `Idempotency-Key must have 1 to ${MAX_KEY_LENGTH} characters; this one has ${header.length}.`,
  });
}
