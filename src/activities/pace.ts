import { setTimeout as sleep } from 'node:timers/promises';

/**
 * Spaces out calls evenly to at most `perSecond` in this process; 0 means no limit. The task queue's
 * limit holds over all workers but is granted in bursts of up to a second's share, and Stripe counts
 * bursts: this takes them off.
 */
export function createPacer(perSecond: number): () => Promise<void> {
  if (perSecond === 0) return async () => {};
  const gapMs = 1000 / perSecond;
  let nextAt = 0;
  return async () => {
    const now = performance.now();
    const at = Math.max(now, nextAt);
    nextAt = at + gapMs;
    if (at > now) await sleep(at - now);
  };
}
