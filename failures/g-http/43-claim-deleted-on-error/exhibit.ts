import type { FastifyInstance } from 'fastify';
import type { Customer, Exhibit } from '../../harness/exhibit.ts';
import { losesFirstAnswers, SENDS_OF_ONE_TRY } from '../../harness/lost-answers.ts';
import type { TemptingWorld } from '../../harness/tempting-world.ts';
import { withAnswers } from '../answers.ts';
import { pay } from '../client.ts';
import { losesNothing, served } from '../network.ts';
import { protectedApi } from '../ours.ts';
import { api as fixed } from './fixed.ts';
import { api as tempting } from './tempting.ts';

/** Stripe charges, and its answers to the first charge are lost on their way to the API. */
const losesFirstCharge = losesFirstAnswers(SENDS_OF_ONE_TRY);

async function payAll(app: FastifyInstance, customers: readonly Customer[]): Promise<void> {
  await served(app, losesNothing, async (url) => {
    for (const customer of customers) await pay(url, customer);
  });
}

async function payThrough(world: TemptingWorld, api: typeof tempting): Promise<void> {
  const { url } = await world.wire(losesFirstCharge);
  await withAnswers(world, (pool) =>
    payAll(api({ ...world, stripeUrl: url }, pool), world.customers),
  );
}

export const claimDeletedOnError: Exhibit = {
  number: 43,
  name: 'claim-deleted-on-error',
  room: 'G',
  title:
    "an API that gives the key back on an error: Stripe's answer is lost, and the repeat charges again",
  rule: 'Give a key back only when it is certain that nothing was sent. An exception is not that certainty.',
  harm: 'chargedAgain',
  tempting: (world) => payThrough(world, tempting),
  fixed: (world) => payThrough(world, fixed),
  async ours(world) {
    const { url } = await world.wire(losesFirstCharge);
    const app = await protectedApi(world, { shop: { ...world, stripeUrl: url } });
    await payAll(app, world.customers);
  },
};
