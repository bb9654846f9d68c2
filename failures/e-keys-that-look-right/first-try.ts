import { losesFirstAnswers, SENDS_OF_ONE_TRY } from '../harness/lost-answers.ts';
import type { TemptingWorld } from '../harness/tempting-world.ts';
import type { WireScript } from '../harness/wire-server.ts';

/** The same shop behind a network that loses Stripe's answers to the first try; Stripe has carried it out. */
export async function losingFirstTry(world: TemptingWorld): Promise<TemptingWorld> {
  const wire = await world.wire(losesFirstAnswers(SENDS_OF_ONE_TRY));
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
