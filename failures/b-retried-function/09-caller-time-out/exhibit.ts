import { Secret } from '../../../src/secret.ts';
import type { Simulator } from '../../../src/simulator/index.ts';
import type { Exhibit } from '../../harness/exhibit.ts';
import type { WireAction, WireScript } from '../../harness/wire-server.ts';
import { confirmsOf } from '../../harness/sends.ts';
import { until } from '../../harness/until.ts';
import { billEverybody as fixed } from './fixed.ts';
import { billEverybody as tempting } from './tempting.ts';

/** Ten seconds in life; here the first request cannot be answered before the second, however long this is. */
const PATIENCE_MS = 250;
/** Each request of ours gets this long. */
const OUR_TIMEOUT_MS = 500;

/** The first request is held up on its way until a later one has been answered. It is not lost. */
function holdsUpTheFirst(
  stripe: Simulator,
  isMeant: (path: string) => boolean = () => true,
): WireScript {
  let held = 0;
  return async ({ method, path }): Promise<WireAction> => {
    if (method === 'POST' && isMeant(path) && (held += 1) === 1) {
      const before = stripe.requests().length;
      await until(() => stripe.requests().length > before);
    }
    return 'forward';
  };
}

export const callerTimeOut: Exhibit = {
  number: 9,
  name: 'caller-time-out',
  room: 'B',
  title: 'the caller gives up waiting and calls again, while the first call goes on',
  rule: 'A time-out ends the waiting, not the work. The next call may meet the first one alive, so both need one key.',
  harm: 'chargedAgain',
  async tempting(world) {
    const wire = await world.wire(holdsUpTheFirst(world.stripe));
    await tempting({ ...world, stripeUrl: wire.url }, PATIENCE_MS);
    await until(() => world.stripe.requests().length >= 2);
  },
  async fixed(world) {
    const wire = await world.wire(holdsUpTheFirst(world.stripe));
    await fixed({ ...world, stripeUrl: wire.url }, PATIENCE_MS);
    await until(() => world.stripe.requests().length >= 2);
  },
  async ours(world) {
    const wire = await world.wire(
      holdsUpTheFirst(world.stripe, (path) => path.endsWith('/confirm')),
    );
    await world.addWorker({
      stripe: {
        apiKey: new Secret(world.apiKey),
        apiBase: wire.url,
        timeoutMs: OUR_TIMEOUT_MS,
      },
    });
    // Whoever orders the run loses patience as well, and orders it again.
    await world.client.startRun(world.run, 'gallery');
    await world.client.startRun(world.run, 'gallery');
    await world.client.run(world.run).result();
    // The one that was held up must have arrived before anybody counts.
    await until(
      () =>
        confirmsOf(world) >= wire.requests.filter(({ path }) => path.endsWith('/confirm')).length,
    );
  },
};
