import { sql } from 'kysely';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Exhibit } from '../../harness/exhibit.ts';
import type { OursWorld } from '../../harness/ours-world.ts';
import { runReplicas } from '../../harness/tempting-world.ts';
import { guard, startPager, sumsOf } from './ours.ts';

const REPLICAS = 3;
const REPLICA = new URL('./replica.ts', import.meta.url);
const CUSTOMERS = 10;
const LOOK_EVERY_MS = 10;
/** Far more than a delivery on this machine takes. */
const MOST_LOOKS = 1_500;

/** Waits until the vault has delivered its alerts. */
async function delivered({ database }: OursWorld): Promise<void> {
  const open = sql<{ n: number }>`
    SELECT count(*)::integer AS n FROM vault_alerts WHERE done_at IS NULL`;
  const raised = sql<{ n: number }>`
    SELECT count(*)::integer AS n FROM vault_alerts WHERE kind = 'spend_cap_exceeded'`;
  const isOver = async (): Promise<boolean> =>
    (await raised.execute(database.db)).rows[0]?.n === 1 &&
    (await open.execute(database.db)).rows[0]?.n === 0;
  for (let looks = 0; !(await isOver()); looks += 1) {
    if (looks > MOST_LOOKS) throw new Error('the vault delivered no alert');
    await sleep(LOOK_EVERY_MS);
  }
}

export const capInTheProcess: Exhibit = {
  number: 33,
  name: 'cap-in-the-process',
  room: 'F',
  title: 'all guards off, three replicas, and a cap of 110 %: in each process, or in the vault',
  rule: 'A cap holds where the money leaves, in one place that all have to pass, and it is taken before the charge.',
  harm: 'chargedAgain',
  harmed: CUSTOMERS,
  customers: CUSTOMERS,
  async tempting(world) {
    await world.replicas(REPLICA, REPLICAS);
  },
  // The same careless program; all that is different is whom it takes for Stripe.
  async ours(world) {
    const pager = await startPager(world);
    const guarded = await guard(world, pager.url);
    await runReplicas({ file: REPLICA, count: REPLICAS, shop: { ...world, ...guarded }, env: {} });
    await delivered(world);
    const kinds = pager.requests.map(({ body }) => /"kind":"(\w+)"/.exec(body)?.[1]);
    // A warning on the way, and one alert for all that was refused.
    const told = ['spend_at_80_percent', 'spend_cap_exceeded'];
    if (kinds.length !== told.length || !told.every((kind) => kinds.includes(kind)))
      throw new Error(`the pager was told: ${kinds.join(', ')}`);
  },
  onlyAlso: true,
  async oursAlso(world) {
    const { dueMinor, capMinor } = sumsOf(world);
    const takenMinor = world.stripe
      .ledger()
      .entries.flatMap(({ charges }) => charges)
      .filter(({ status }) => status === 'succeeded')
      .reduce((sum, { amount }) => sum + amount, 0);
    if (takenMinor > capMinor)
      throw new Error(`${takenMinor} were spent under a cap of ${capMinor}`);
    if (takenMinor < dueMinor) throw new Error(`${takenMinor} were spent: the cap was not tried`);
  },
};
