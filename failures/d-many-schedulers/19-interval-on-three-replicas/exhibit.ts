import type { Exhibit } from '../../harness/exhibit.ts';
import type { TemptingWorld } from '../../harness/tempting-world.ts';
import { fireTick } from '../triggers.ts';

const REPLICAS = 3;
const REPLICA = new URL('./replica.ts', import.meta.url);

/** The deployment says `replicas: 3`, and each of them has the timer. */
async function deploy(world: TemptingWorld, way: 'tempting' | 'fixed'): Promise<void> {
  await world.replicas(REPLICA, REPLICAS, { WAY: way });
}

export const intervalOnThreeReplicas: Exhibit = {
  number: 19,
  name: 'interval-on-three-replicas',
  room: 'D',
  title: 'a timer in the application, and three replicas of the application',
  rule: 'A timer fires once per process. Only what all processes share, the key or the row, can make it once.',
  harm: 'chargedAgain',
  tempting: (world) => deploy(world, 'tempting'),
  fixed: (world) => deploy(world, 'fixed'),
  async ours(world) {
    const replicas = Array.from({ length: REPLICAS }, (_, at) => `replica-${at + 1}`);
    await Promise.all(replicas.map(() => world.addWorker()));
    // Each fires by its own timer and, to be on the safe side, starts the run by itself as well.
    await Promise.all(
      replicas.flatMap((replica) => [
        fireTick(world, replica),
        world.client.startRun(world.run, replica),
      ]),
    );
    await world.client.run(world.run).result();
  },
};
