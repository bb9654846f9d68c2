import type { FastifyInstance } from 'fastify';
import type { Customer, Exhibit } from '../../harness/exhibit.ts';
import type { WireScript } from '../../harness/wire-server.ts';
import { pay } from '../client.ts';
import { served } from '../network.ts';
import { protectedApi } from '../ours.ts';
import { api as fixed } from './fixed.ts';
import { api as tempting } from './tempting.ts';

const CUSTOMERS = 5;
/** As small beside the customers as ten thousand are on a busy day. */
const ANSWERS_KEPT = 3;

/** The first customer's answer is lost, and all the others pay before their client tries again. */
async function payAll(app: FastifyInstance, customers: readonly Customer[]): Promise<void> {
  const [first, ...others] = customers;
  if (first === undefined) return;
  const triesAgain = Promise.withResolvers<void>();
  const othersPaid = Promise.withResolvers<void>();
  let tries = 0;
  const script: WireScript = async ({ body }) => {
    if (!body.includes(`"${first.id}"`)) return 'forward';
    tries += 1;
    if (tries === 1) return 'forwardThenClose';
    triesAgain.resolve();
    await othersPaid.promise;
    return 'forward';
  };
  await served(app, script, async (url) => {
    const paying = pay(url, first);
    await triesAgain.promise;
    for (const other of others) await pay(url, other);
    othersPaid.resolve();
    await paying;
  });
}

export const cacheThatEvicts: Exhibit = {
  number: 41,
  name: 'cache-that-evicts',
  room: 'G',
  title:
    'an API that keeps its answers in a cache: on a busy day the key is gone when it comes again',
  rule: 'A key is a record and no cache entry. It lives for a promised time, and only its age may end it.',
  harm: 'chargedAgain',
  customers: CUSTOMERS,
  tempting: (world) => payAll(tempting(world, ANSWERS_KEPT), world.customers),
  fixed: (world) => payAll(fixed(world), world.customers),
  ours: async (world) => payAll(await protectedApi(world), world.customers),
};
