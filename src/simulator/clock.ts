/** The simulator's time: real time plus what tests have added. It never goes back, a reset apart. */
export class VirtualClock {
  #offsetMs: number;
  #lastMs = 0;

  constructor(offsetMs = 0) {
    this.#offsetMs = offsetMs;
  }

  get offsetMs(): number {
    return this.#offsetMs;
  }

  nowMs(): number {
    this.#lastMs = Math.max(this.#lastMs, Date.now() + this.#offsetMs);
    return this.#lastMs;
  }

  nowSeconds(): number {
    return Math.floor(this.nowMs() / 1000);
  }

  advance(byMs: number): void {
    this.#offsetMs += byMs;
  }

  reset(): void {
    this.#offsetMs = 0;
    this.#lastMs = 0;
  }
}
