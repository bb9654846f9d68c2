import type { Exhibit, Shop } from '../../harness/exhibit.ts';
import type { TemptingWorld } from '../../harness/tempting-world.ts';
import { breakableWire } from '../../harness/lost-answers.ts';
import { chargesConfirmed } from '../../harness/sends.ts';
import { until } from '../../harness/until.ts';
import { billEverybody as fixed } from './fixed.ts';
import { billEverybody as tempting } from './tempting.ts';

const CUSTOMERS = 2;
/** The first customer's answer, and all that the first run asks for the second. */
const UP_TO_THE_END_OF_RUN_1 = 4;

/** A job that fails is started again, as every scheduler does it. */
async function runTwice(world: TemptingWorld, job: (shop: Shop) => Promise<void>): Promise<void> {
  const wire = await world.wire((_request, count) =>
    count > 1 && count <= UP_TO_THE_END_OF_RUN_1 ? 'forwardThenClose' : 'forward',
  );
  const shop = { ...world, stripeUrl: wire.url };
  await job(shop).catch(() => job(shop));
}

export const lazyKey: Exhibit = {
  number: 10,
  name: 'lazy-key',
  room: 'B',
  title: 'a lazy property is the key, on an object that each run makes anew',
  rule: 'A value that is kept in an object is as old as the object. A key has to outlive the process: derive it, or store it.',
  harm: 'chargedAgain',
  customers: CUSTOMERS,
  harmed: CUSTOMERS,
  tempting: (world) => runTwice(world, tempting),
  fixed: (world) => runTwice(world, fixed),
  async ours(world) {
    const { client, run } = world;
    const network = breakableWire();
    await world.wire(network.script);
    const first = await world.addWorker();
    await client.startRun(run, 'gallery');
    await until(() => chargesConfirmed(world) >= CUSTOMERS);
    await first.shutdown();
    await client.run(run).terminate('the first run dies');
    network.mend();
    const again = await client.startRun(run, 'gallery');
    if (again.kind !== 'started') throw new Error(`there was no second run: ${again.kind}`);
    await world.addWorker();
    await client.run(run).result();
  },
};
