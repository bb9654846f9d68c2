import { shardWorkflowId } from '../../src/domain/ids.ts';
import { waitFor } from './cli.ts';
import { evidenceOf } from './crash-evidence.ts';
import { customerOf, slotCellsOf, type Kill } from './crash-table.ts';
import {
  c11,
  completionStored,
  gather,
  lookAtAll,
  parksOf,
  runsOf,
  settle,
  startRunOf,
  tickId,
  type Seen,
  type Wave,
} from './crash-waves.ts';
import type { CrashWorker, CrashWorld } from './crash-world.ts';

/** The worker processes of the moment, one for each queue: C11 needs them apart. */
export interface Crew {
  readonly billing: CrashWorker;
  readonly charge: CrashWorker;
  /** until both were ready */
  readonly startMs: number;
}

const WAIT_MS = 60_000;

/** Both processes of a crew, with what each has to hold in the waves to come. */
async function startCrew(
  world: CrashWorld,
  kills: { readonly billing: readonly Kill[]; readonly charge: readonly Kill[] },
): Promise<Crew> {
  const began = performance.now();
  const [billing, charge] = await Promise.all([
    world.startWorker({ queues: ['billing'], parks: parksOf(...kills.billing) }),
    world.startWorker({ queues: ['charge'], parks: parksOf(...kills.charge) }),
  ]);
  return { billing, charge, startMs: performance.now() - began };
}

/** kill -9 of both worker processes; a new crew takes over. */
export async function killWorkers(world: CrashWorld): Promise<{ wave: Wave; crew: Crew }> {
  const { billing, charge } = await startCrew(world, { billing: ['W'], charge: ['W'] });
  await gather(world, 'W', [billing, charge]);
  const seen = new Map(await lookAtAll(world, 'W'));
  const at = new Map([['all', Date.now()]]);
  await billing.kill();
  // Its workflow worker is dead: the completion is stored, and no workflow task can begin.
  const customer = c11('W');
  charge.release(customer);
  await mustBeScheduled(world, 'W');
  seen.set('C11/W', await evidenceOf(world, runsOf('W').main, customer));
  await charge.kill();
  // What was on its way to Stripe when its sender died: one is lost, the other one arrives late.
  world.gate.release(customerOf('C4', 'W'), 'drop');
  world.gate.release(customerOf('C8', 'W'), 'deliver');
  for (const point of ['C5', 'C9']) world.gate.release(customerOf(point, 'W'), 'drop');
  // The purge that was cut off goes on in this billing worker, which must not hold it again.
  const crew = await startCrew(world, { billing: ['T'], charge: ['T', 'P', 'R'] });
  return { wave: await settle(world, 'W', { at, seen }), crew };
}

/** kill -9 of the Temporal server while everybody is halted; all go on against a dead server, which then comes back. */
export async function killTemporal(
  world: CrashWorld,
  crew: Crew,
): Promise<{ wave: Wave; crew: Crew }> {
  const { billing, charge } = crew;
  const runs = runsOf('T');
  await gather(world, 'T', [billing, charge]);
  const seen = new Map(await lookAtAll(world, 'T'));
  await world.temporal.kill();
  const others = slotCellsOf('T').flatMap(({ customer }) =>
    customer === c11('T') ? [] : [customer],
  );
  for (const worker of [billing, charge]) {
    worker.release(...others, shardWorkflowId(runs.continued, 0), tickId(runs));
  }
  for (const point of ['C5', 'C9']) world.gate.release(customerOf(point, 'T'), 'drop');
  await world.temporal.start();
  const at = new Map([['all', Date.now()]]);
  await world.client.temporal.workflow.getHandle(tickId(runs)).result();
  await Promise.all([runs.continued, runs.ticked].map((run) => world.client.run(run).result()));
  await othersCharged(world, others.length);
  const last = await killTemporalBeforeNextTask(world, crew);
  seen.set('C11/T', last.atTheBlow);
  at.set('C11/T', last.at);
  return { wave: await settle(world, 'T', { at, seen }), crew: last.crew };
}

/** C11 by itself: with the workflow worker gone the completion is stored, and then the server dies. */
async function killTemporalBeforeNextTask(world: CrashWorld, crew: Crew) {
  await crew.billing.kill();
  crew.charge.release(c11('T'));
  await mustBeScheduled(world, 'T');
  const atTheBlow: Seen['atTheBlow'] = await evidenceOf(world, runsOf('T').main, c11('T'));
  await world.temporal.kill();
  await world.temporal.start();
  const at = Date.now();
  const billing = await world.startWorker({ queues: ['billing'], parks: parksOf('P', 'R') });
  return { atTheBlow, at, crew: { ...crew, billing } };
}

/** Immediate stop of PostgreSQL; everybody goes on while it is away. */
export async function stopPostgres(world: CrashWorld, { billing, charge }: Crew): Promise<Wave> {
  await gather(world, 'P', [billing, charge]);
  const seen = await lookAtAll(world, 'P');
  await world.postgres.immediateStop();
  const before = world.proxy.stats().refused;
  const everybody = slotCellsOf('P').map(({ customer }) => customer);
  for (const worker of [billing, charge]) worker.release('', ...everybody);
  world.gate.release(customerOf('C9', 'P'), 'drop');
  // Both processes have met a database that is not there.
  await waitFor(() => world.proxy.stats().refused >= before + 4, { timeoutMs: WAIT_MS });
  await world.postgres.start();
  const at = new Map([['all', Date.now()]]);
  return settle(world, 'P', { at, seen });
}

/** Nothing is killed: single answers are lost on their way. */
export async function loseAnswers(world: CrashWorld, { charge }: Crew): Promise<Wave> {
  const who = (point: string): string => customerOf(point, 'R');
  const { main } = runsOf('R');
  const at = new Map<string, number>();
  const seen = new Map<string, Seen['atTheBlow']>();
  const lost = [
    { point: 'C2', statement: ['INSERT INTO billing_charges', who('C2')] },
    { point: 'C7', statement: ['SET payment_intent_id =', who('C7')] },
    { point: 'C13', statement: [`'slot.' ||`, who('C13')] },
  ].map(async ({ point, statement }) => {
    await world.proxy.dropNextReplyWhen(...statement);
    at.set(`${point}/R`, Date.now());
    seen.set(`${point}/R`, { lost: 1 });
  });
  world.simulator.setFaults({
    // Twice: the SDK sends again by itself when its connection breaks.
    rules: (
      [
        ['C4', 'create', 'resetBefore'],
        ['C5', 'create', 'actThenDrop'],
        ['C8', 'confirm', 'resetBefore'],
        ['C9', 'confirm', 'actThenDrop'],
      ] as const
    ).map(([point, operation, kind]) => ({
      id: point,
      endpoint: `payment_intents.${operation}`,
      kind,
      limit: 2,
      where: { chargeonce_customer: who(point) },
    })),
  });
  await startRunOf(
    world,
    main,
    slotCellsOf('R').map(({ customer }) => customer),
  );
  await charge.reached(who('C10'));
  await Promise.all(lost);
  const faults = () => world.simulator.counters().faults;
  await waitFor(() => faults().every(({ fired }) => fired === 2), { timeoutMs: WAIT_MS });
  seen.set('C10/R', await evidenceOf(world, main, who('C10')));
  const [slot] = await world.query<{ payment_intent_id: string }>(
    'select payment_intent_id from billing_charges where customer_id = $1',
    [who('C10')],
  );
  world.network.swallow();
  at.set('C10/R', Date.now());
  charge.release(who('C10'));
  // The completion itself, by what it says of the charge.
  const completion = slot?.payment_intent_id ?? 'no PaymentIntent';
  await waitFor(() => world.network.swallowed(completion), { timeoutMs: WAIT_MS });
  world.network.cut();
  for (const { id, fired } of faults()) {
    const first = world.simulator.requests().find((request) => request.fault === id);
    seen.set(`${id}/R`, { lost: fired });
    if (first !== undefined) at.set(`${id}/R`, Date.parse(first.at));
  }
  return settle(world, 'R', { at, seen });
}

async function mustBeScheduled(world: CrashWorld, kill: 'W' | 'T'): Promise<void> {
  const last = await completionStored(world, runsOf(kill).main, c11(kill));
  if (last !== 'workflowTaskScheduled')
    throw new Error(`C11/${kill}: ${last ?? 'nothing'} came after the completion`);
}

async function othersCharged(world: CrashWorld, count: number): Promise<void> {
  const { main } = runsOf('T');
  const charged = async () =>
    (
      await world.query(`select from billing_charges where period = $1 and state = 'charged'`, [
        main.period,
      ])
    ).length;
  await waitFor(async () => (await charged()) === count, { timeoutMs: WAIT_MS });
}
