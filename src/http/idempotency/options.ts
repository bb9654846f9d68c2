import type { FastifyRequest } from 'fastify';
import type { FingerprintMode } from './fingerprint.ts';
import type { IdempotencyStore, Takeover } from './store.ts';

/** What happened to a request with a key: for logs and metrics. Holds no key and no content. */
export type IdempotencyEvent =
  | 'executed'
  | 'takenOver'
  | 'replayed'
  | 'refusedMissing'
  | 'refusedMalformed'
  | 'refusedMismatch'
  | 'refusedInFlight'
  | 'refusedInterrupted'
  /** nothing ran, or the answer says so: the key is free again */
  | 'abandoned'
  /** the answer came after the key had gone to another holder, or had been resolved */
  | 'lateHolder'
  /** the claim failed: 503, and the handler did not run */
  | 'storeUnavailable'
  /** the handler ran, and its answer could not be stored yet; it is tried again */
  | 'storedLater';

export interface IdempotencyOptions {
  readonly store: IdempotencyStore;
  /**
   * Who calls: the tenant or account that authentication found, before the claim. Never the credential itself, which
   * may be rotated between two tries. null or empty: 401.
   */
  readonly principal: (request: FastifyRequest) => string | null;
  /** where the rules are published; problems name it */
  readonly policyUrl: string;
  /** `shared` (default): a key names one request of the whole API. `route`: each route has keys of its own. */
  readonly endpoint?: 'shared' | 'route';
  readonly fingerprint?: FingerprintMode;
  /** for another request under a used key: 422 as the draft says, or 400 as Stripe does */
  readonly mismatchStatus?: 422 | 400;
  /** how long a holder that says nothing keeps its key; milliseconds */
  readonly leaseMs?: number;
  /** how long a response is answered again, from its completion; milliseconds */
  readonly retentionMs?: number;
  /** largest request body; bytes */
  readonly maxRequestBytes?: number;
  /** largest body that is stored; a larger one is delivered and not kept; bytes */
  readonly maxStoredBytes?: number;
  /** response headers that are stored with the body; lower case */
  readonly storedHeaders?: readonly string[];
  /** statuses that say that nothing was done: their key is free again */
  readonly neverStored?: readonly number[];
  readonly onEvent?: (event: IdempotencyEvent, request: FastifyRequest) => void;
  /** a failing store, for the log */
  readonly onError?: (error: unknown) => void;
}

/** Of one route, as `config: { idempotency: … }`; `false`: the route takes no keys. */
export interface RouteIdempotency {
  /** Whether the handler may run again after its holder is gone; `conflict` (409 until resolved) unless said. */
  readonly takeover?: Takeover;
  /** false: the body of a 2xx is a secret, and is not kept */
  readonly storeBody?: boolean;
  /**
   * Statuses after which the same request may run again: an answer such as 503 that should not be kept for a day. Only
   * with takeover `rerun`. Another request may not have the key.
   */
  readonly neverStored?: readonly number[];
  /** false: a request without a key runs, unprotected */
  readonly required?: boolean;
}

/** In a handler: what the key that it runs under is. */
export interface RequestIdempotency {
  readonly key: string;
  readonly principal: string;
  /** grows with each holder of the key */
  readonly fence: number;
  /** an earlier run broke off: its effects may be there already */
  readonly takenOver: boolean;
  /** aborted when the key went to another holder: what is not done yet is better left */
  readonly signal: AbortSignal;
}

export type Settings = Readonly<
  Required<Omit<IdempotencyOptions, 'neverStored' | 'storedHeaders' | 'onError'>>
> & {
  readonly neverStored: ReadonlySet<number>;
  readonly storedHeaders: ReadonlySet<string>;
  readonly onError: (error: unknown) => void;
};

/** Four times what a busy process may miss of its renewals; a crashed holder keeps its key for so long. */
const LEASE_MS = 120_000;
/** What Stripe promises at least (docs.stripe.com/api/idempotent_requests). */
export const RETENTION_MS = 24 * 3_600_000;
const MAX_REQUEST_BYTES = 1024 * 1024;
const MAX_STORED_BYTES = 1024 * 1024;
const MIN_LEASE_MS = 200;
const STORED_HEADERS = [
  'content-type',
  'content-language',
  'content-encoding',
  'content-disposition',
  'location',
  'retry-after',
  'etag',
  'last-modified',
  'link',
];
/** Of the connection or of the moment, or secret: a repeat has its own, or none. */
const NEVER_STORED_HEADERS = new Set([
  'set-cookie',
  'date',
  'connection',
  'keep-alive',
  'transfer-encoding',
  'content-length',
  'trailer',
  'upgrade',
  'te',
  'authorization',
  'proxy-authenticate',
  'proxy-authorization',
  'www-authenticate',
  'idempotent-replayed',
]);

/** Fills in what was not said. Throws a TypeError or RangeError that names the option. */
export function settingsOf(options: IdempotencyOptions): Settings {
  const leaseMs = options.leaseMs ?? LEASE_MS;
  const storedHeaders = (options.storedHeaders ?? STORED_HEADERS).map((name) => name.toLowerCase());
  const forbidden = storedHeaders.filter((name) => NEVER_STORED_HEADERS.has(name));
  if (forbidden.length > 0)
    throw new TypeError(`storedHeaders: ${forbidden.join(', ')} cannot be answered again`);
  if (options.policyUrl === '') throw new TypeError('policyUrl: is empty');
  if (positive('leaseMs', leaseMs) < MIN_LEASE_MS)
    throw new RangeError(`leaseMs: at least ${MIN_LEASE_MS}`);
  return {
    store: options.store,
    principal: options.principal,
    policyUrl: options.policyUrl,
    endpoint: options.endpoint ?? 'shared',
    fingerprint: options.fingerprint ?? 'bytes',
    mismatchStatus: options.mismatchStatus ?? 422,
    leaseMs,
    retentionMs: positive('retentionMs', options.retentionMs ?? RETENTION_MS),
    maxRequestBytes: positive('maxRequestBytes', options.maxRequestBytes ?? MAX_REQUEST_BYTES),
    maxStoredBytes: positive('maxStoredBytes', options.maxStoredBytes ?? MAX_STORED_BYTES),
    storedHeaders: new Set(storedHeaders),
    neverStored: new Set(options.neverStored ?? [401, 429]),
    onEvent: options.onEvent ?? (() => {}),
    onError: options.onError ?? (() => {}),
  };
}

function positive(name: string, value: number): number {
  if (!Number.isSafeInteger(value) || value <= 0)
    throw new RangeError(`${name}: must be a whole number above 0`);
  return value;
}
