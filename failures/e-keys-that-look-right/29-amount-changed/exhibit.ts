import { sql } from 'kysely';
import type { Customer, Exhibit } from '../../harness/exhibit.ts';
import { keysOf } from '../../harness/sends.ts';
import { losesFirst, losingFirstTry } from '../first-try.ts';
import { chargeUsage as fixed } from './fixed.ts';
import { chargeUsage as tempting } from './tempting.ts';

const USED_MEANWHILE_MINOR = 150;

/** A meter that has moved each time somebody looks. */
function meter(): (customer: Customer) => Promise<number> {
  let looks = -1;
  return async ({ amountMinor }) => {
    looks += 1;
    return amountMinor + looks * USED_MEANWHILE_MINOR;
  };
}

export const amountChanged: Exhibit = {
  number: 29,
  name: 'amount-changed',
  room: 'E',
  title:
    'the sum is read anew for each try, and the error "used with other parameters" makes a new key',
  rule: 'Freeze what a key stands for before its first send. An idempotency error says that something was sent, never that nothing was.',
  harm: 'chargedAgain',
  tempting: async (world) => tempting(await losingFirstTry(world), meter()),
  fixed: async (world) => fixed(await losingFirstTry(world), meter()),
  async ours(world) {
    const { db } = world.database;
    // The price changes between two tries.
    await world.wire(
      losesFirst('create', async () => {
        await sql`UPDATE customers SET amount_minor = amount_minor + ${USED_MEANWHILE_MINOR}`.execute(
          db,
        );
      }),
    );
    await world.bill();
    const keys = keysOf(world, 'create');
    if (keys.length < 3) throw new Error('nothing was tried again after the price had changed');
    if (new Set(keys).size !== 1) throw new Error('the second try had another key');
  },
};
