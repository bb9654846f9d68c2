import { Readable } from 'node:stream';
import { sql } from 'kysely';
import { parseBillingNamespace } from '../../../src/domain/namespace.ts';
import { importCustomers } from '../../../src/import/import-customers.ts';
import type { Exhibit } from '../../harness/exhibit.ts';
import type { OursWorld } from '../../harness/ours-world.ts';
import type { TemptingWorld } from '../../harness/tempting-world.ts';
import { giveIds } from '../customers.ts';
import { chargeAll as fixed } from './fixed.ts';
import { chargeAll as tempting, type Due } from './tempting.ts';

/** Two customers and their periods; joined by ":" both are `cus_a:2026:02`. */
const MEETING = [
  { id: 'cus_a:2026', period: '02' },
  { id: 'cus_a', period: '2026:02' },
];

function dueOf({ customers }: TemptingWorld): Due[] {
  return MEETING.flatMap((names, at) => {
    const customer = customers[at];
    return customer === undefined ? [] : [{ ...customer, ...names }];
  });
}

/** An id that could meet another one in a joined text does not come in. */
async function refusesTheId({ database }: OursWorld): Promise<void> {
  const header = 'customer_id,stripe_customer_id,payment_method_id,amount,currency';
  const rows = MEETING.map(({ id }) => `${id},cus_x,pm_card_visa,1.00,usd`);
  const input = Readable.from([Buffer.from([header, ...rows, ''].join('\n'))]);
  const result = await importCustomers({ db: database.db, input, actor: 'exhibit', dryRun: true });
  if (result.ok) throw new Error('an id with ":" was imported');
  if (result.problems[0]?.line !== 2 || result.problemCount !== 1)
    throw new Error(`the import was refused for ${JSON.stringify(result.problems)}`);
}

/** Who is billed by the next run. */
async function activate({ database }: OursWorld, stripeCustomer: string): Promise<void> {
  await sql`UPDATE customers SET active = (stripe_customer_id = ${stripeCustomer})`.execute(
    database.db,
  );
}

export const joinedParts: Exhibit = {
  number: 26,
  name: 'joined-parts',
  room: 'E',
  title: 'keys joined by ":", two customers share one, and the second is never charged',
  rule: 'A separator that may stand in a part joins two customers into one. Frame each part by its length.',
  harm: 'missed',
  customers: 2,
  tempting: (world) => tempting(world, dueOf(world)),
  fixed: (world) => fixed(world, dueOf(world)),
  async ours(world) {
    await refusesTheId(world);
    // What does come in may hold "-": joined by it, ("base", "eu-c1") and ("base-eu", "c1") would be one text.
    await giveIds(world, ['eu-c1', 'c1']);
    const namespace = parseBillingNamespace('base-eu');
    if (!namespace.ok) throw new TypeError(namespace.problem);
    const [first, second] = world.customers;
    await activate(world, first?.stripeCustomer ?? '');
    await world.bill();
    await activate(world, second?.stripeCustomer ?? '');
    const run = { ...world.run, namespace: namespace.namespace };
    await world.client.startRun(run, 'gallery');
    await world.client.run(run).result();
  },
};
