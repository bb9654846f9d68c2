import { setTimeout as sleep } from 'node:timers/promises';
import { seededRandom } from '../../../src/simulator/faults.ts';

/** Chance from a seed. Every actor has its own stream, so that one's luck does not depend on another's timing. */
export class Luck {
  readonly #random: () => number;

  constructor(seed: number, stream: string) {
    this.#random = seededRandom(`chaos:${seed}:${stream}`);
  }

  /** 0 ≤ n < 1 */
  next(): number {
    return this.#random();
  }

  between([min, max]: readonly [number, number]): number {
    return min + this.next() * (max - min);
  }

  pick<T>(from: readonly T[]): T | undefined {
    return from[Math.floor(this.next() * from.length)];
  }

  shuffled<T>(list: readonly T[]): T[] {
    return list
      .map((item) => ({ item, at: this.next() }))
      .toSorted((a, b) => a.at - b.at)
      .map(({ item }) => item);
  }
}

/** Waits, and no longer than until the signal. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await sleep(ms, undefined, { signal }).catch(() => {});
}

/** Waits for a condition; false when the time is over or the signal comes first. */
export async function eventually(
  condition: () => Promise<boolean>,
  limit: { readonly timeoutMs: number; readonly pollMs: number; readonly signal: AbortSignal },
): Promise<boolean> {
  const deadline = performance.now() + limit.timeoutMs;
  while (!limit.signal.aborted) {
    if (await condition()) return true;
    if (performance.now() > deadline) return false;
    await pause(limit.pollMs, limit.signal);
  }
  return false;
}
