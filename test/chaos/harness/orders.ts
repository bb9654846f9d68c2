import { setTimeout as sleep } from 'node:timers/promises';
import { BILLING_TASK_QUEUE } from '../../../src/domain/ids.ts';
import type { billingTick } from '../../../src/workflows/billing-tick.ts';
import { slotRef } from '../../support/names.ts';
import type { Actor } from './actors.ts';
import { Luck, pause } from './luck.ts';
import type { World } from './world.ts';

/** No order waits longer; what became of it shows in the database. */
const ORDER_TIMEOUT_MS = 10_000;
const PAUSED_MS = [1_000, 3_000] as const;
const RESUME_TRIES = 6;
const PAUSE_EVERY_TURNS = 20;
/** Early: a turn takes ten seconds while all workers are down. */
const FIRST_PAUSE = 2;
const ORDER_EVERY_MS = [700, 2_500] as const;
const OPERATOR = { operator: 'chaos', reason: 'chaos: an order in the middle of everything' };

export interface Triggers {
  readonly triggers: number;
  /** how many of them began the run; known once all have answered */
  readonly began: Promise<number>;
}

/** Two ticks and two starts by hand at the same moment. Returns when the run has begun. */
export async function startTogether(world: World): Promise<Triggers> {
  const { client, run } = world;
  const tick = async (name: string): Promise<boolean> => {
    const handle = await client.temporal.workflow.start<typeof billingTick>('billingTick', {
      taskQueue: BILLING_TASK_QUEUE,
      workflowId: `chaos-tick-${name}`,
      args: [{ ...run, zone: 'UTC', granularity: 'month' }],
    });
    return (await handle.result()).started === 'started';
  };
  const byHand = async (): Promise<boolean> =>
    (await client.startRun(run, 'chaos, by hand')).kind === 'started';
  const all = [tick('first'), byHand(), tick('second'), byHand()];
  // Each may fail with what is done to Temporal meanwhile; then the number is not known, and said so.
  const began = Promise.all(all).then(
    (answers) => answers.filter((one) => one).length,
    () => -1,
  );
  await Promise.race([Promise.any(all), began]);
  return { triggers: all.length, began };
}

/** Reruns of anybody, also of those who are being charged just now; now and then a pause. */
export const giveOrders: Actor = async ({ world, options, fired, signal }) => {
  const luck = new Luck(options.seed, 'orders');
  for (let turn = 1; ; turn += 1) {
    await pause(luck.between(ORDER_EVERY_MS), signal);
    if (signal.aborted) return;
    if (turn % PAUSE_EVERY_TURNS === FIRST_PAUSE || (turn % 3 === 0 && !(await hasPaused(world)))) {
      // What became of it is read in the audit log: an answer may be lost like any other.
      await inTime(world.client.pause(world.run, OPERATOR));
      await pause(luck.between(PAUSED_MS), signal);
      await resume(world);
      continue;
    }
    const customer = await someCustomer(world, luck);
    if (customer === undefined) continue;
    const request = { ...slotRef(customer, world.run), ...OPERATOR };
    const answer = await inTime(
      luck.next() < 0.2
        ? world.client.signalRerun(request).then(() => 'signalled')
        : world.client.rerunCustomer(request),
    );
    if (answer !== null) fired.add(`order.rerun ${answer}`);
  }
};

/** Undoes whatever pause is on, as an operator would: asks again until somebody has heard. */
export async function resume(world: World): Promise<void> {
  for (let tries = 0; tries < RESUME_TRIES; tries += 1) {
    if ((await inTime(world.client.resume(world.run, OPERATOR))) !== null) return;
  }
}

/** Orders to pause and to resume that took effect, by the audit log. */
export async function controlOrders(world: World): Promise<{ paused: number; resumed: number }> {
  const [row] = await world.query<{ paused: number; resumed: number }>(
    `select (count(*) filter (where action = 'run.paused'))::integer as paused,
       (count(*) filter (where action = 'run.resumed'))::integer as resumed
     from audit_log where reason = $1`,
    [OPERATOR.reason],
  );
  return row ?? { paused: 0, resumed: 0 };
}

/** Whether a pause has taken effect; true also while the database cannot say. */
export async function hasPaused(world: World): Promise<boolean> {
  const orders = await controlOrders(world).catch(() => null);
  return orders === null || orders.paused > 0;
}

/** Mostly somebody whose charge is under way, where an order can do the most harm. */
async function someCustomer(world: World, luck: Luck): Promise<string | undefined> {
  const state = luck.pick(['open', 'open', 'declined', 'charged']);
  const wanted =
    state === 'open' ? `state in ('claimed', 'sent', 'indeterminate')` : `state = '${state ?? ''}'`;
  const rows = await world
    .query<{ customer_id: string }>(
      `select customer_id from billing_charges where ${wanted} order by updated_at desc limit 20`,
    )
    .catch(() => []);
  return luck.pick(rows)?.customer_id;
}

/** The answer, or null when there was none in time or an error instead. */
async function inTime<T>(order: Promise<T>): Promise<T | null | undefined> {
  const late = new AbortController();
  try {
    return await Promise.race([
      order.then((value) => value ?? undefined),
      sleep(ORDER_TIMEOUT_MS, null, { signal: late.signal }).catch(() => null),
    ]);
  } catch {
    return null;
  } finally {
    late.abort();
    order.catch(() => {});
  }
}
