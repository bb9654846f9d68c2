import type { FastifyInstance } from 'fastify';
import type { Customer, Exhibit } from '../../harness/exhibit.ts';
import { losesFirstAnswers } from '../../harness/lost-answers.ts';
import { pay } from '../client.ts';
import { served } from '../network.ts';
import { protectedApi } from '../ours.ts';
import { api as fixed } from './fixed.ts';
import { api as tempting } from './tempting.ts';

/** The answer to the first request is lost, and the client sends it again. */
async function payAll(app: FastifyInstance, customers: readonly Customer[]): Promise<void> {
  await served(app, losesFirstAnswers(1), async (url) => {
    for (const customer of customers) await pay(url, customer);
  });
}

export const noKeyLayer: Exhibit = {
  number: 35,
  name: 'no-key-layer',
  room: 'G',
  title: 'an API that charges, whose clients send an Idempotency-Key that nobody reads',
  rule: 'Whoever takes a key has to keep it: one key, one run of the handler, and the same answer for each repeat.',
  harm: 'chargedAgain',
  tempting: (world) => payAll(tempting(world), world.customers),
  fixed: (world) => payAll(fixed(world), world.customers),
  ours: async (world) => payAll(await protectedApi(world), world.customers),
};
