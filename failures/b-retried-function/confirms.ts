import type { OursWorld } from '../harness/ours-world.ts';
import type { WireScript } from '../harness/wire-server.ts';

/** A network that loses so many of Stripe's answers to requests of one path: each is charged, and nobody hears of it. */
export function losesAnswers(times: number, isMeant: (path: string) => boolean): WireScript {
  const lost = new Map<string, number>();
  return ({ method, path }) => {
    if (method !== 'POST' || !isMeant(path)) return 'forward';
    const before = lost.get(path) ?? 0;
    lost.set(path, before + 1);
    return before < times ? 'forwardThenClose' : 'forward';
  };
}

/** A network that carries every confirm to Stripe and tells nobody what came of it, until it is mended. */
export function breakableWire(): { readonly script: WireScript; mend(): void } {
  let broken = true;
  return {
    script({ method, path }) {
      if (!broken || !path.startsWith('/v1/payment_intents/')) return 'forward';
      return method === 'POST' ? 'forwardThenClose' : 'close';
    },
    mend() {
      broken = false;
    },
  };
}

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
