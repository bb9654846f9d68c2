import type { OursWorld } from '../harness/ours-world.ts';
import type { TemptingWorld } from '../harness/tempting-world.ts';
import type { WireScript } from '../harness/wire-server.ts';

/** Stripe's SDK sends once more by itself when a connection breaks, with the same key. */
const SENDS_OF_ONE_TRY = 2;

/** The same shop behind a network that loses Stripe's answers to the first try; Stripe has carried it out. */
export async function losingFirstTry(world: TemptingWorld): Promise<TemptingWorld> {
  const wire = await world.wire((_request, count) =>
    count <= SENDS_OF_ONE_TRY ? 'forwardThenClose' : 'forward',
  );
  return { ...world, stripeUrl: wire.url };
}

/** A network that loses Stripe's answers to our first try of a create or a confirm, and tells when it does. */
export function losesFirst(
  operation: 'create' | 'confirm',
  tell: (lost: number) => Promise<void>,
): WireScript {
  let lost = 0;
  return async ({ method, path }) => {
    const isMeant = method === 'POST' && path.endsWith('/confirm') === (operation === 'confirm');
    if (!isMeant || lost >= SENDS_OF_ONE_TRY) return 'forward';
    lost += 1;
    await tell(lost);
    return 'forwardThenClose';
  };
}

/** What was sent, by operation. */
export function keysOf({ stripe }: OursWorld, operation: 'create' | 'confirm'): string[] {
  return stripe
    .requests()
    .filter(
      ({ method, endpoint }) => method === 'POST' && endpoint === `payment_intents.${operation}`,
    )
    .map(({ idempotencyKey }) => idempotencyKey ?? 'none');
}
