import type { Exhibit } from '../../harness/exhibit.ts';
import { gateFor } from '../../harness/gate.ts';
import type { TemptingWorld } from '../../harness/tempting-world.ts';
import type { WireAction } from '../../harness/wire-server.ts';
import { runSql } from '../databases.ts';
import { SCHEMA as CHARGES } from './fixed.ts';
import { SCHEMA as BILLED } from './tempting.ts';

/** One for the charge, one for the SDK's own resend. */
const LOST_ANSWERS = 2;
const POD = new URL('./replica.ts', import.meta.url);

/** While a pod of release 41 charges, one of release 42 comes up; the first charge is still on its way. */
async function deploy(world: TemptingWorld, way: 'tempting' | 'fixed'): Promise<void> {
  const databaseUrl = await world.database();
  await runSql(databaseUrl, way === 'fixed' ? CHARGES : BILLED);
  const charging = gateFor(2);
  const pod = async (release: string): Promise<void> => {
    await world.replicas(POD, 1, { WAY: way, DATABASE_URL: databaseUrl, RELEASE: release });
    charging.leave();
  };
  let newer: Promise<void> | undefined;
  await world.wire(async (): Promise<WireAction> => {
    newer ??= pod('42');
    await charging.pass();
    return 'forward';
  });
  await pod('41');
  await newer;
}

export const rollingDeploy: Exhibit = {
  number: 24,
  name: 'rolling-deploy',
  room: 'D',
  title: 'a rolling deploy, and the new release makes its keys by another recipe',
  rule: 'Store the key before the first send, and send what is stored. A recipe may change, a stored key may not.',
  harm: 'chargedAgain',
  tempting: (world) => deploy(world, 'tempting'),
  fixed: (world) => deploy(world, 'fixed'),
  async ours(world) {
    const { client, run } = world;
    const sent = Promise.withResolvers<void>();
    const replaced = Promise.withResolvers<void>();
    let lost = 0;
    await world.wire(async ({ path }): Promise<WireAction> => {
      if (!path.endsWith('/confirm') || lost >= LOST_ANSWERS) return 'forward';
      lost += 1;
      sent.resolve();
      await replaced.promise;
      return 'forwardThenClose';
    });
    const older = await world.addWorker();
    await client.startRun(run, 'rolling deploy');
    await sent.promise;
    // It lets its charge finish, and takes no more. Then the answer is lost, so that the newer has to go on.
    void older.shutdown();
    await world.addWorker();
    replaced.resolve();
    await client.run(run).result();
  },
};
