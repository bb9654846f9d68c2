import { customerWorkflowId, runWorkflowId, shardWorkflowId } from '../../../src/domain/ids.ts';
import { parseCustomerId } from '../../../src/domain/customer-id.ts';
import type { Exhibit } from '../../harness/exhibit.ts';
import { gateFor } from '../../harness/gate.ts';
import type { OursWorld } from '../../harness/ours-world.ts';
import type { TemptingWorld } from '../../harness/tempting-world.ts';
import type { WireAction } from '../../harness/wire-server.ts';
import { runSql } from '../databases.ts';
import { SCHEMA } from './lease.ts';

const POD = new URL('./replica.ts', import.meta.url);

/** The leader's charge takes longer than its lease, and a standby is there. */
async function handOff(world: TemptingWorld, way: 'tempting' | 'fixed'): Promise<void> {
  const databaseUrl = await world.database();
  await runSql(databaseUrl, SCHEMA);
  const charging = gateFor(2);
  const pod = async (): Promise<void> => {
    await world.replicas(POD, 1, { WAY: way, DATABASE_URL: databaseUrl });
    charging.leave();
  };
  let standby: Promise<void> | undefined;
  await world.wire(async (): Promise<WireAction> => {
    standby ??= pod();
    await charging.pass();
    return 'forward';
  });
  await pod();
  await standby;
}

/** Ends the run's workflows from outside: they cannot say so to a charge that is on its way. */
async function endWorkflows({ client, run, customers }: OursWorld): Promise<void> {
  const [first] = customers;
  const customer = parseCustomerId(first?.id ?? '');
  if (!customer.ok) throw new TypeError('the exhibit has no customer');
  const charge = customerWorkflowId({ ...run, customerId: customer.customerId });
  for (const workflowId of [runWorkflowId(run), shardWorkflowId(run, 0), charge]) {
    const handle = client.temporal.workflow.getHandle(workflowId);
    // A parent takes its children with it, sooner or later.
    await handle.terminate('the leader is lost').catch(() => {});
  }
}

export const leaderHandOff: Exhibit = {
  number: 25,
  name: 'leader-hand-off',
  room: 'D',
  title: 'the leader loses its lease while it charges, and both go on',
  rule: 'A lease says who may begin, not who is still at it. What both may send has to be one and the same.',
  harm: 'chargedAgain',
  tempting: (world) => handOff(world, 'tempting'),
  fixed: (world) => handOff(world, 'fixed'),
  async ours(world) {
    const { client, run } = world;
    const charging = gateFor(2);
    const lost = Promise.withResolvers<void>();
    await world.wire(async ({ path }): Promise<WireAction> => {
      if (!path.endsWith('/confirm')) return 'forward';
      lost.resolve();
      await charging.pass();
      return 'forward';
    });
    const leader = await world.addWorker();
    await client.startRun(run, 'the leader');
    await lost.promise;
    // It takes no more work. What it has sent is on its way, and nobody can call it back.
    void leader.shutdown();
    await world.addWorker();
    await endWorkflows(world);
    await client.startRun(run, 'the next leader');
    await client.run(run).result();
  },
};
