import { IdempotencyClientError } from './errors.ts';

/** The part of the Web's `Storage` that is used. */
export interface KeyStorage {
  getItem(name: string): string | null;
  setItem(name: string, value: string): void;
  removeItem(name: string): void;
}

export interface UserActionOptions {
  /** where the key outlives a reload of the page: `sessionStorage`, or `localStorage` to outlive the browser */
  readonly storage?: KeyStorage;
  /** what the user does, under which a reloaded page finds it again: `pay order 17` */
  readonly name?: string;
  /** a key that exists already: made by the server with the form, or derived from what is done */
  readonly key?: string;
  /** After its first send, how long a key is used; below what the server keeps answers for. */
  readonly maxAgeMs?: number;
  /** milliseconds since 1970; for tests */
  readonly now?: () => number;
}

/** What an action's key has been sent with. */
interface Binding {
  readonly request: string;
  readonly firstSentAtMs: number;
}

interface ActionRecord {
  readonly key: string;
  readonly sent: Binding | null;
}

const PREFIX = 'chargeonce idempotency: ';
/** An hour less than the 24 for which an answer is kept: the last try has to come in time too. */
const MAX_AGE_MS = 23 * 3_600_000;
const KEY = /^[\x20-\x7e]{1,255}$/;

/**
 * One thing that a user does once, and its key. However often it is sent, by retries, after a time-out or after a
 * reload of the page, it is the same key, so the server does it once.
 */
export class UserAction {
  readonly key: string;
  readonly #maxAgeMs: number;
  readonly #now: () => number;
  readonly #place: Place | null;
  #sent: Binding | null;
  #over = false;

  constructor(record: ActionRecord, place: Place | null, options: UserActionOptions) {
    this.key = record.key;
    this.#sent = record.sent;
    this.#place = place;
    this.#maxAgeMs = options.maxAgeMs ?? MAX_AGE_MS;
    this.#now = options.now ?? Date.now;
  }

  /**
   * Before each send: from the first one on the key stands for this request alone. Throws when it has been sent with
   * another one, or too long ago. `idempotentFetch` does this.
   */
  bind(request: string): void {
    const sent = this.#lastKnown();
    if (sent !== null && sent.request !== request)
      throw new IdempotencyClientError(
        'other-request',
        'this action has been sent with another method, URL, content type or body. ' +
          'If the user wants something else now, call end() and make a new action',
      );
    if (sent !== null && this.#now() - sent.firstSentAtMs > this.#maxAgeMs)
      throw new IdempotencyClientError(
        'action-too-old',
        'this action was first sent so long ago that the server may have forgotten its key, and would do it again. ' +
          'Find out whether it was done, then call end(); make a new action only if it was not',
      );
    this.#sent = sent ?? { request, firstSentAtMs: this.#now() };
    if (!this.#over) this.#place?.write({ key: this.key, sent: this.#sent });
  }

  /**
   * The user's action is over: whatever comes next is another one. `idempotentFetch` calls it at a final answer. Twice
   * is the same as once.
   */
  end(): void {
    this.#over = true;
    this.#place?.remove(this.key);
  }

  #lastKnown(): Binding | null {
    if (this.#place === null || this.#over) return this.#sent;
    const record = this.#place.read();
    // Ended elsewhere, or the storage was emptied: the key is still ours, and its answer is kept at the server.
    if (record === null) return this.#sent;
    if (record.key !== this.key)
      throw new IdempotencyClientError(
        'action-replaced',
        'another action has begun under this name since. Call newUserAction again and send that one',
      );
    return record.sent ?? this.#sent;
  }
}

/**
 * Begins what a user does: call it once when they act, and send with it until there is an answer. With `storage` and
 * `name` the key is there before the first send and until the final answer, so that the same call after a reload, a
 * second click or another tab goes on with the same action instead of beginning a second.
 */
export function newUserAction(options: UserActionOptions = {}): UserAction {
  const { key, name, storage } = options;
  if (key !== undefined && !KEY.test(key))
    throw new IdempotencyClientError('key-malformed', 'a key has 1 to 255 printable ASCII letters');
  if (storage === undefined) return new UserAction(fresh(key), null, options);
  if (name === undefined || name === '')
    throw new IdempotencyClientError(
      'storage-unusable',
      'a stored action needs a name, under which a reloaded page finds it again',
    );
  const place = new Place(storage, PREFIX + name);
  const found = place.read();
  if (found !== null && (key === undefined || key === found.key))
    return new UserAction(found, place, options);
  if (found !== null)
    throw new IdempotencyClientError(
      'action-replaced',
      'under this name there is an action with another key, whose answer is not known yet',
    );
  const record = fresh(key);
  place.write(record);
  return new UserAction(record, place, options);
}

function fresh(key: string = crypto.randomUUID()): ActionRecord {
  return { key, sent: null };
}

/** One entry of a storage. What cannot be read or written is an error: a new key in its place could do it twice. */
class Place {
  readonly #storage: KeyStorage;
  readonly #name: string;

  constructor(storage: KeyStorage, name: string) {
    this.#storage = storage;
    this.#name = name;
  }

  read(): ActionRecord | null {
    const text = this.#try('read', () => this.#storage.getItem(this.#name));
    if (text === null) return null;
    const record = this.#try('read', (): unknown => JSON.parse(text));
    if (!isRecord(record)) throw this.#unusable('read');
    return record;
  }

  write(record: ActionRecord): void {
    this.#try('written', () => this.#storage.setItem(this.#name, JSON.stringify(record)));
  }

  /** Only the entry of this key: another action may stand there by now. */
  remove(key: string): void {
    try {
      if (this.read()?.key === key) this.#storage.removeItem(this.#name);
    } catch {
      // A key that stays is answered with what it did before; nothing is done twice for it.
    }
  }

  #try<T>(verb: string, step: () => T): T {
    try {
      return step();
    } catch (error) {
      throw this.#unusable(verb, error);
    }
  }

  #unusable(verb: string, cause?: unknown): IdempotencyClientError {
    return new IdempotencyClientError(
      'storage-unusable',
      `the entry "${this.#name}" of the storage cannot be ${verb}, so nothing was sent`,
      { cause },
    );
  }
}

function isRecord(value: unknown): value is ActionRecord {
  if (typeof value !== 'object' || value === null) return false;
  if (!('key' in value) || typeof value.key !== 'string' || !KEY.test(value.key)) return false;
  return 'sent' in value && (value.sent === null || isBinding(value.sent));
}

function isBinding(value: unknown): value is Binding {
  if (typeof value !== 'object' || value === null) return false;
  return (
    'request' in value &&
    typeof value.request === 'string' &&
    'firstSentAtMs' in value &&
    typeof value.firstSentAtMs === 'number'
  );
}
