import { performance } from 'node:perf_hooks';

/** A token bucket: `rate` per second, up to `burst` at once. Rate 0 lets everything through. */
interface Limit {
  readonly rate: number;
  readonly burst: number;
}

interface Bucket {
  tokens: number;
  atMs: number;
}

/** The two limits Stripe documents as defaults: https://docs.stripe.com/rate-limits */
export const DEFAULT_ENDPOINT_RATE = 25;
export const DEFAULT_ACCOUNT_RATE = 100;

/** Runs in front of the idempotency layer, on real time: load is real even where the clock is virtual. */
export class RateLimiter {
  readonly #endpoint: Limit;
  readonly #account: Limit;
  readonly #buckets = new Map<string, Bucket>();
  readonly #now: () => number;

  constructor(limits: { endpoint: Limit; account: Limit; now?: () => number }) {
    this.#endpoint = limits.endpoint;
    this.#account = limits.account;
    this.#now = limits.now ?? (() => performance.now());
  }

  /** Undefined when the request may pass, else the reason of the refusal. A refused request takes no token. */
  refusal(tenantId: string, endpoint: string): 'global-rate' | 'endpoint-rate' | undefined {
    const account = this.#bucket(tenantId, this.#account);
    const own = this.#bucket(`${tenantId} ${endpoint}`, this.#endpoint);
    if (account !== undefined && account.tokens < 1) return 'global-rate';
    if (own !== undefined && own.tokens < 1) return 'endpoint-rate';
    if (account !== undefined) account.tokens -= 1;
    if (own !== undefined) own.tokens -= 1;
    return undefined;
  }

  clear(): void {
    this.#buckets.clear();
  }

  #bucket(name: string, limit: Limit): Bucket | undefined {
    if (limit.rate === 0) return undefined;
    const now = this.#now();
    const bucket = this.#buckets.get(name);
    if (bucket === undefined) {
      const full = { tokens: limit.burst, atMs: now };
      this.#buckets.set(name, full);
      return full;
    }
    const refill = ((now - bucket.atMs) / 1000) * limit.rate;
    bucket.tokens = Math.min(limit.burst, bucket.tokens + refill);
    bucket.atMs = now;
    return bucket;
  }
}
