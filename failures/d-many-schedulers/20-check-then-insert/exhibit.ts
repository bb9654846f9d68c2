import type { Exhibit } from '../../harness/exhibit.ts';
import { gateFor } from '../../harness/gate.ts';
import type { TemptingWorld } from '../../harness/tempting-world.ts';
import type { WireAction } from '../../harness/wire-server.ts';
import { runSql } from '../databases.ts';
import { SCHEMA } from './schema.ts';

const REPLICAS = 3;
const REPLICA = new URL('./replica.ts', import.meta.url);

/** Three processes; a charge is held on its way until all who will charge have looked into the table. */
async function together(world: TemptingWorld, way: 'tempting' | 'fixed'): Promise<void> {
  const databaseUrl = await world.database();
  await runSql(databaseUrl, SCHEMA);
  const looked = gateFor(REPLICAS);
  await world.wire(async (): Promise<WireAction> => {
    await looked.pass();
    return 'forward';
  });
  const replica = async (): Promise<void> => {
    await world.replicas(REPLICA, 1, { WAY: way, DATABASE_URL: databaseUrl });
    looked.leave();
  };
  await Promise.all(Array.from({ length: REPLICAS }, replica));
}

export const checkThenInsert: Exhibit = {
  number: 20,
  name: 'check-then-insert',
  room: 'D',
  title: 'three processes ask hasCompletedForPeriod, charge, and then insert',
  rule: 'What was read is old when it is used. Insert the claim before the charge; who cannot insert does not charge.',
  harm: 'chargedAgain',
  tempting: (world) => together(world, 'tempting'),
  fixed: (world) => together(world, 'fixed'),
  async ours(world) {
    const places = Array.from({ length: REPLICAS }, (_, at) => `process-${at + 1}`);
    await Promise.all(places.map(() => world.addWorker()));
    await Promise.all(places.map((place) => world.client.startRun(world.run, place)));
    await world.client.run(world.run).result();
  },
};
