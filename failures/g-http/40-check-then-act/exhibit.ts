import type { FastifyInstance } from 'fastify';
import type { Customer, Exhibit, Shop } from '../../harness/exhibit.ts';
import { gateFor } from '../../harness/gate.ts';
import type { TemptingWorld } from '../../harness/tempting-world.ts';
import type { WireServer } from '../../harness/wire-server.ts';
import { withAnswers } from '../answers.ts';
import { pay } from '../client.ts';
import { losesNothing, served } from '../network.ts';
import { protectedApi } from '../ours.ts';
import { api as fixed } from './fixed.ts';
import { api as tempting } from './tempting.ts';

/** The client has given up the first try and sent the second when Stripe gets the first charge. */
class Overlap {
  readonly #impatience = new AbortController();
  readonly #decided = gateFor(2);

  /** In front of Stripe: a charge waits there until both requests have charged or were refused. */
  readonly atStripe = async (): Promise<'forward'> => {
    this.#impatience.abort();
    await this.#decided.pass();
    return 'forward';
  };

  async payAll(app: FastifyInstance, customers: readonly Customer[]): Promise<void> {
    app.addHook('onResponse', async (_request, reply) => {
      if (reply.statusCode === 409) this.#decided.leave();
    });
    await served(app, losesNothing, async (url) => {
      for (const customer of customers) await pay(url, customer, this.#impatience.signal);
    });
  }
}

function behind(world: Shop, { url }: WireServer): Shop {
  return { ...world, stripeUrl: url };
}

async function payTwice(world: TemptingWorld, api: typeof tempting): Promise<void> {
  const overlap = new Overlap();
  const wire = await world.wire(overlap.atStripe);
  await withAnswers(world, (pool) =>
    overlap.payAll(api(behind(world, wire), pool), world.customers),
  );
}

export const checkThenAct: Exhibit = {
  number: 40,
  name: 'check-then-act',
  room: 'G',
  title:
    'an API that looks for the key, charges, and then stores the answer; the client was impatient',
  rule: 'Take the key before the handler runs, by a unique insert. Who comes while it runs gets 409, not a second run.',
  harm: 'chargedAgain',
  tempting: (world) => payTwice(world, tempting),
  fixed: (world) => payTwice(world, fixed),
  async ours(world) {
    const overlap = new Overlap();
    const shop = behind(world, await world.wire(overlap.atStripe));
    await overlap.payAll(await protectedApi(world, { shop }), world.customers);
  },
};
