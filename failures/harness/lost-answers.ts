import type { Exhibit, Shop } from './exhibit.ts';
import type { TemptingWorld } from './tempting-world.ts';
import type { WireScript } from './wire-server.ts';

/** Stripe's SDK sends once more by itself when a connection breaks, with the same key and whatever it is told. */
export const SENDS_OF_ONE_TRY = 2;

/** A network that loses Stripe's answers to the first so many requests, which Stripe has carried out. */
export function losesFirstAnswers(lost: number): WireScript {
  return (_request, count) => (count <= lost ? 'forwardThenClose' : 'forward');
}

/** A network that passes on the first so many confirms of a charge and loses Stripe's answers to them. */
export function losesConfirms(lost: number): WireScript {
  let confirms = 0;
  return ({ path }) => {
    if (!path.endsWith('/confirm')) return 'forward';
    confirms += 1;
    return confirms <= lost ? 'forwardThenClose' : 'forward';
  };
}

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

/** Code that bills, behind a network that loses Stripe's first answers. */
export function losingFirstAnswers(
  lost: number,
  billEverybody: (shop: Shop) => Promise<void>,
): Exhibit['tempting'] {
  return async (world: TemptingWorld) => {
    const wire = await world.wire(losesFirstAnswers(lost));
    await billEverybody({ ...world, stripeUrl: wire.url });
  };
}
