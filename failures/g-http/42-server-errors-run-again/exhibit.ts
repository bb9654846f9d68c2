import type { FastifyInstance } from 'fastify';
import type { Customer, Exhibit } from '../../harness/exhibit.ts';
import { pay } from '../client.ts';
import { losesNothing, served } from '../network.ts';
import { protectedApi } from '../ours.ts';
import { api as fixed } from './fixed.ts';
import { api as tempting } from './tempting.ts';

/** The mail server is away for the first receipt. */
function receipts(): () => Promise<void> {
  let sent = 0;
  return async () => {
    sent += 1;
    if (sent === 1) throw new Error('the mail server is away');
  };
}

async function payAll(app: FastifyInstance, customers: readonly Customer[]): Promise<void> {
  await served(app, losesNothing, async (url) => {
    for (const customer of customers) await pay(url, customer);
  });
}

export const serverErrorsRunAgain: Exhibit = {
  number: 42,
  name: 'server-errors-run-again',
  room: 'G',
  title:
    'an API that stores no 5xx: the receipt fails after the charge, and the repeat charges again',
  rule: 'A 5xx says that something broke, not that nothing was done. It is stored like any other answer.',
  harm: 'chargedAgain',
  tempting: (world) => payAll(tempting(world, receipts()), world.customers),
  fixed: (world) => payAll(fixed(world, receipts()), world.customers),
  ours: async (world) =>
    payAll(await protectedApi(world, { afterCharge: receipts() }), world.customers),
};
