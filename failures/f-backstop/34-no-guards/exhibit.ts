import type { Exhibit } from '../../harness/exhibit.ts';

const REPLICAS = 3;
const REPLICA = new URL('./replica.ts', import.meta.url);
const CUSTOMERS = 10;

export const noGuards: Exhibit = {
  number: 34,
  name: 'no-guards',
  room: 'F',
  title: 'all guards off, three replicas, and nothing behind them: the bill',
  rule: 'What can be started three times charges three times. The charge has to be one, not the trigger.',
  harm: 'chargedAgain',
  harmed: CUSTOMERS,
  customers: CUSTOMERS,
  async tempting(world) {
    await world.replicas(REPLICA, REPLICAS);
  },
  async fixed(world) {
    await world.replicas(REPLICA, REPLICAS, { WAY: 'fixed' });
  },
  async ours(world) {
    const places = Array.from({ length: REPLICAS }, (_, at) => `replica-${at + 1}`);
    await Promise.all(places.map(() => world.addWorker()));
    await Promise.all(places.map((place) => world.client.startRun(world.run, place)));
    await world.client.run(world.run).result();
  },
};
