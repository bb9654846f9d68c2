import type { Exhibit, Shop } from '../../harness/exhibit.ts';
import type { TemptingWorld } from '../../harness/tempting-world.ts';
import { breakableWire } from '../../harness/lost-answers.ts';
import { chargesConfirmed } from '../../harness/sends.ts';
import { until } from '../../harness/until.ts';
import { billEverybody as fixed } from './fixed.ts';
import { billEverybody as tempting } from './tempting.ts';

/** One for each kind of key. */
const CUSTOMERS = 4;

/** The first answer about each customer is lost with its connection. */
async function onBrokenConnections(
  world: TemptingWorld,
  job: (shop: Shop) => Promise<void>,
): Promise<void> {
  const seen = new Set<string>();
  const wire = await world.wire(({ body }) => {
    const isFirst = !seen.has(body);
    seen.add(body);
    return isFirst ? 'forwardThenClose' : 'forward';
  });
  await job({ ...world, stripeUrl: wire.url });
}

export const keyFromWhatIsAtHand: Exhibit = {
  number: 11,
  name: 'key-from-what-is-at-hand',
  room: 'B',
  title: "the key comes from the clock, a session, a connection's id or an object's identity",
  rule: 'Unique is not enough: a key has to be the same when the same charge is tried again. Clocks, sessions, connections and objects are not.',
  harm: 'chargedAgain',
  customers: CUSTOMERS,
  harmed: CUSTOMERS,
  tempting: (world) => onBrokenConnections(world, tempting),
  fixed: (world) => onBrokenConnections(world, fixed),
  async ours(world) {
    const network = breakableWire();
    await world.wire(network.script);
    const first = await world.addWorker();
    await world.client.startRun(world.run, 'gallery');
    await until(() => chargesConfirmed(world) >= CUSTOMERS);
    // Another worker: another clock reading, other connections, other objects.
    await first.shutdown();
    network.mend();
    await world.addWorker();
    await world.client.run(world.run).result();
  },
};
