import type { Exhibit } from '../../harness/exhibit.ts';
import type { TemptingWorld } from '../../harness/tempting-world.ts';
import { openPool } from '../../harness/pool.ts';
import { giveIds, withIds } from '../customers.ts';
import { chargeAll as fixed } from './fixed.ts';
import { chargeAll as tempting, chargeId } from './tempting.ts';

/** Far beyond what 32 bits can keep apart: two of so many meet but once in e¹¹⁶ searches. */
const MOST_CUSTOMERS = 1_000_000;

/** Two customers of whom one will never be charged; in 32 bits there are two among about 80,000. */
function twoThatMeet(period: string): string[] {
  const seen = new Map<string, string>();
  for (let number = 1; number <= MOST_CUSTOMERS; number += 1) {
    const customerId = `customer-${number}`;
    const id = chargeId(customerId, period);
    const other = seen.get(id);
    if (other !== undefined) return [other, customerId];
    seen.set(id, customerId);
  }
  throw new Error('no two customers share a short hash');
}

async function chargeTwo(world: TemptingWorld, chargeAll: typeof tempting): Promise<void> {
  const pool = openPool(await world.database(), { max: 1 });
  try {
    await pool.query('CREATE TABLE charges (id text PRIMARY KEY)');
    await chargeAll(withIds(world, twoThatMeet(world.period)), pool);
  } finally {
    await pool.end();
  }
}

export const truncatedHash: Exhibit = {
  number: 31,
  name: 'truncated-hash',
  room: 'E',
  title: 'the first 8 digits of a hash as the key: two customers share it, one is never charged',
  rule: 'Keep the whole hash. 32 bits are used up by 80,000 customers, and the first to notice is nobody.',
  harm: 'missed',
  customers: 2,
  tempting: (world) => chargeTwo(world, tempting),
  fixed: (world) => chargeTwo(world, fixed),
  async ours(world) {
    await giveIds(world, twoThatMeet(world.period));
    await world.bill();
  },
};
