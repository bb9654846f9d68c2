import { randomUUID } from 'node:crypto';
import { setTimeout } from 'node:timers/promises';
import { BILLING_TASK_QUEUE } from '../../../src/domain/ids.ts';
import { startPeriod } from '../../../src/start-run.ts';
import type { Exhibit } from '../../harness/exhibit.ts';
import type { OursWorld } from '../../harness/ours-world.ts';
import type { TemptingWorld } from '../../harness/tempting-world.ts';
import { tickInput } from '../triggers.ts';

const PROCESS = new URL('./replica.ts', import.meta.url);

/** The application and the CronJob's pod; both think that it is the first of the month, and it is. */
async function bothBill(world: TemptingWorld, way: 'tempting' | 'fixed'): Promise<void> {
  await world.replicas(PROCESS, 2, { WAY: way });
}

const LOOK_MS = 50;

/** A Schedule at Temporal that fires now. Ends when Temporal says that it has fired. */
async function fireSchedule(world: OursWorld): Promise<void> {
  const { temporal } = world.client;
  const name = `exhibit-${randomUUID()}`;
  const schedule = await temporal.schedule.create({
    scheduleId: name,
    spec: {},
    action: {
      type: 'startWorkflow',
      workflowType: 'billingTick',
      workflowId: name,
      taskQueue: BILLING_TASK_QUEUE,
      args: [tickInput(world)],
    },
  });
  world.defer(() => schedule.delete());
  await schedule.trigger();
  for (;;) {
    const { info } = await schedule.describe();
    const [fired] = info.recentActions;
    if (fired?.action.type === 'startWorkflow') {
      const tick = temporal.workflow.getHandle(fired.action.workflow.workflowId);
      // One that found the run begun and not planned would look again in ten seconds.
      world.defer(() => tick.terminate('the exhibit is over').catch(() => {}));
      return;
    }
    await setTimeout(LOOK_MS);
  }
}

export const cronjobAndTimer: Exhibit = {
  number: 22,
  name: 'cronjob-and-timer',
  room: 'D',
  title: 'the CronJob is new, and the timer in the application still fires',
  rule: 'A key names what is bought: this customer, this period. Who asked for it, and how, does not belong in it.',
  harm: 'chargedAgain',
  tempting: (world) => bothBill(world, 'tempting'),
  fixed: (world) => bothBill(world, 'fixed'),
  async ours(world) {
    const { database, client, run } = world;
    await world.addWorker();
    await Promise.all([
      fireSchedule(world),
      startPeriod(
        { db: database.db, client: async () => client },
        { run, startedBy: 'cronjob', goOnAfterStop: false },
      ),
    ]);
    await client.run(run).result();
  },
};
