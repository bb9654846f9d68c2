import type { OursWorld } from './ours-world.ts';

/** How many charges have been confirmed at Stripe at least once. */
export function chargesConfirmed({ stripe }: OursWorld): number {
  const confirms = stripe.requests().filter(({ path }) => path.endsWith('/confirm'));
  return new Set(confirms.map(({ path }) => path)).size;
}

/** How often a charge was confirmed, all customers together; the answer may have been lost. */
export function confirmsOf({ stripe }: OursWorld): number {
  return stripe.requests().filter(({ path }) => path.endsWith('/confirm')).length;
}

/** A fault that did not fire would show nothing. */
export function wasSent(what: string, times: number, atLeast: number): void {
  if (times < atLeast) throw new Error(`${what} was sent ${times} times, so nothing was tried`);
}

/**
 * Throws unless a confirm was sent again, each charge's under one key, and every send with an X-Attempt-Id of its own: a
 * fault that did not fire would show nothing.
 */
export async function sawOneKeyPerCharge({ stripe }: OursWorld): Promise<void> {
  const confirms = stripe.requests().filter(({ path }) => path.endsWith('/confirm'));
  const byCharge = Map.groupBy(confirms, ({ path }) => path);
  if (byCharge.size === confirms.length) throw new Error('nothing was sent again');
  for (const [path, own] of byCharge) {
    const keys = new Set(own.map(({ idempotencyKey }) => idempotencyKey));
    if (keys.size !== 1 || keys.has(null)) throw new Error(`${path} had ${keys.size} keys`);
  }
  const attempts = new Set(confirms.map(({ attemptId }) => attemptId));
  if (attempts.size !== confirms.length) throw new Error('two sends had one X-Attempt-Id');
}

/** The keys of all sends of one operation, in the order of the sends. */
export function keysOf({ stripe }: OursWorld, operation: 'create' | 'confirm'): string[] {
  return stripe
    .requests()
    .filter(
      ({ method, endpoint }) => method === 'POST' && endpoint === `payment_intents.${operation}`,
    )
    .map(({ idempotencyKey }) => idempotencyKey ?? 'none');
}
