export interface GateLimits {
  /** requests under way at once */
  readonly concurrent: number;
  /** requests per second, and how many may come together after a quiet time */
  readonly perSecond: number;
  readonly burst: number;
}

/**
 * Bounds what strangers can make this process do: it stands before the body is read and the signature
 * is computed. Every `enter` that was let in needs one `leave`.
 */
export class Gate {
  readonly #limits: GateLimits;
  readonly #now: () => number;
  #inside = 0;
  #tokens: number;
  #filledAtMs: number;

  constructor(limits: GateLimits, now: () => number) {
    this.#limits = limits;
    this.#now = now;
    this.#tokens = limits.burst;
    this.#filledAtMs = now();
  }

  enter(): 'in' | 'full' | 'tooFast' {
    const { concurrent, perSecond, burst } = this.#limits;
    if (this.#inside >= concurrent) return 'full';
    const now = this.#now();
    const refill = (Math.max(0, now - this.#filledAtMs) * perSecond) / 1000;
    this.#tokens = Math.min(burst, this.#tokens + refill);
    this.#filledAtMs = now;
    if (this.#tokens < 1) return 'tooFast';
    this.#tokens -= 1;
    this.#inside += 1;
    return 'in';
  }

  leave(): void {
    this.#inside -= 1;
  }
}
