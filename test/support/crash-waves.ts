import {
  BILLING_TASK_QUEUE,
  runWorkflowId,
  shardWorkflowId,
  type RunRef,
} from '../../src/domain/ids.ts';
import type { TickInput } from '../../src/workflows/billing-tick.ts';
import { waitFor } from './cli.ts';
import {
  endingOf,
  eventTypes,
  evidenceOf,
  runEndedAt,
  traceOf,
  type Ending,
  type Evidence,
} from './crash-evidence.ts';
import { inboxOf, purgeEnds, startPurge, type Inbox } from './crash-purge.ts';
import type { Hold } from './crash-gate.ts';
import { cellsOf, customerOf, slotCellsOf, type Cell, type Kill } from './crash-table.ts';
import type { CrashWorker, CrashWorld } from './crash-world.ts';
import { assertInvariants } from './invariants.ts';
import { runRef } from './names.ts';

/** What was seen of one cell: where things stood when the blow fell, how they ended, and how long that took. */
export interface Seen {
  readonly atTheBlow: AtTheBlow;
  readonly ending: Ending | StructureEnding | Inbox;
  /** from the worker's kill, the loss, or the server's return until the customer's workflow has closed */
  readonly recoveryMs: number;
  /** the customer's history, for the message of a failure */
  readonly trace: string;
}
export type Wave = Map<string, Seen>;
/** In the wave of lost answers it is the loss that is counted. */
export type AtTheBlow = Evidence | Structure | Inbox | { readonly lost: number };

/** The same for C14 and C15, which are about a shard and a tick. */
interface Structure {
  readonly workflow: string;
  /** the shard's new Temporal run, or the billing run that the tick starts */
  readonly next: 'not there' | 'there';
}
interface StructureEnding extends Structure {
  readonly charged: number;
}

/** Two more than a shard's window, so that it continues as new with somebody left. */
export const CONTINUED = Array.from(
  { length: 52 },
  (_, i) => `can_${String(i + 1).padStart(2, '0')}`,
);
export const TICKED = ['tick_1'];
const WAIT_MS = 60_000;

/** Where each point is held: by a crash point in the worker, or by the gate before Stripe. */
const PARKED_AT: Readonly<Record<string, string>> = {
  C1: 'beforeClaimCommits',
  C2: 'afterClaimCommitted',
  C3: 'beforeCreateSent',
  C6: 'afterCreateReply',
  C7: 'afterIntentCommitted',
  C10: 'afterConfirmReply',
  C11: 'afterConfirmReply',
  C12: 'beforeRecordCommits',
  C13: 'afterRecordCommitted',
};
const HELD: Readonly<Record<string, Pick<Hold, 'operation' | 'side'>>> = {
  C4: { operation: 'create', side: 'beforeExecution' },
  C5: { operation: 'create', side: 'afterExecution' },
  C8: { operation: 'confirm', side: 'beforeExecution' },
  C9: { operation: 'confirm', side: 'afterExecution' },
};

/** The three runs of a wave: its customers, a shard that continues as new, and one that a tick starts. */
export interface Runs {
  readonly main: RunRef;
  readonly continued: RunRef;
  readonly ticked: RunRef;
}

export function runsOf(kill: 'W' | 'T' | 'P' | 'R'): Runs {
  const year = { W: 2031, T: 2032, P: 2033, R: 2034 }[kill];
  return {
    main: runRef(`${year}-01`),
    continued: runRef(`${year}-02`),
    ticked: runRef(`${year}-03`),
  };
}

/** The points at which a worker halts the customers and workflows of these waves. */
export function parksOf(...kills: readonly Kill[]): Record<string, string> {
  const parks: Record<string, string> = {};
  for (const kill of kills) {
    for (const { point, customer } of cellsOf(kill)) {
      const at = PARKED_AT[point];
      // In the wave of lost answers only C10 waits for the test; the others lose theirs under way.
      if (at !== undefined && (kill !== 'R' || point === 'C10')) parks[customer] = at;
    }
    if (kill === 'W' || kill === 'P') parks[''] = 'betweenPurgeBatches';
    if (kill !== 'W' && kill !== 'T') continue;
    const runs = runsOf(kill);
    parks[shardWorkflowId(runs.continued, 0)] = 'duringContinueAsNew';
    parks[tickId(runs)] = 'beforeRunStarted';
  }
  return parks;
}

export function tickId(runs: Runs): string {
  return `billing-tick-${runs.ticked.period}`;
}

/** Makes these the customers that the next plan finds. */
async function activate(world: CrashWorld, customers: readonly string[]): Promise<void> {
  await world.query('update customers set active = customer_id = any($1)', [customers]);
}

/** Starts a run of these customers, and returns when its plan is frozen. */
export async function startRunOf(
  world: CrashWorld,
  run: RunRef,
  customers: readonly string[],
): Promise<void> {
  await activate(world, customers);
  await world.client.startRun(run, 'crash test');
  const planned = async () =>
    (await world.query('select from billing_runs where period = $1', [run.period])).length > 0;
  await waitFor(planned, { timeoutMs: WAIT_MS });
}

/**
 * Brings a wave to where the blow falls: every customer halted at its point, and with `structure` a shard in the middle
 * of its continue-as-new and a tick that has not started its run.
 */
export async function gather(
  world: CrashWorld,
  kill: 'W' | 'T' | 'P',
  workers: readonly [billing: CrashWorker, charge: CrashWorker],
): Promise<void> {
  const [billing, charge] = workers;
  const runs = runsOf(kill);
  if (kill !== 'P') {
    await startRunOf(world, runs.continued, CONTINUED);
    await billing.reached(shardWorkflowId(runs.continued, 0));
    await startTick(world, runs);
    await billing.reached(tickId(runs));
  }
  if (kill !== 'T') {
    await startPurge(world, kill);
    await billing.reached('');
  }
  const cells = slotCellsOf(kill);
  const held = cells.flatMap(({ point, customer }) => {
    const hold = HELD[point];
    return hold === undefined ? [] : [world.gate.hold({ ...hold, customer })];
  });
  // Last, and quickly: a local activity that is held for 8 s is tried again.
  await startRunOf(
    world,
    runs.main,
    cells.map(({ customer }) => customer),
  );
  await activate(world, TICKED);
  const parked = cells
    .filter(({ point }) => point in PARKED_AT)
    .map(({ point, customer }) =>
      (['C1', 'C2', 'C12', 'C13'].includes(point) ? billing : charge).reached(customer),
    );
  await Promise.all([...parked, ...held]);
}

async function startTick(world: CrashWorld, runs: Runs): Promise<void> {
  const { namespace, period } = runs.ticked;
  const input: TickInput = {
    namespace,
    period,
    granularity: 'month',
    zone: 'UTC',
    bills: 'current',
  };
  await world.client.temporal.workflow.start('billingTick', {
    workflowId: tickId(runs),
    taskQueue: BILLING_TASK_QUEUE,
    args: [input],
  });
}

/** Where everybody of the wave stands just now. */
export async function lookAtAll(
  world: CrashWorld,
  kill: 'W' | 'T' | 'P',
): Promise<Map<string, AtTheBlow>> {
  const runs = runsOf(kill);
  const seen = await Promise.all(
    cellsOf(kill).map(async ({ id, point, customer }) => {
      if (point === 'C14') return [id, await shardOf(world, runs)] as const;
      if (point === 'C15') return [id, await tickOf(world, runs)] as const;
      if (point === 'C16') return [id, (await inboxOf(world, kill)).inbox] as const;
      return [id, await evidenceOf(world, runs.main, customer)] as const;
    }),
  );
  return new Map<string, AtTheBlow>(seen);
}

async function shardOf(world: CrashWorld, runs: Runs): Promise<Structure> {
  const id = shardWorkflowId(runs.continued, 0);
  const { status, raw } = await world.client.temporal.workflow.getHandle(id).describe();
  const { firstRunId, execution } = raw.workflowExecutionInfo ?? {};
  const continued = firstRunId !== execution?.runId;
  return { workflow: status.name, next: continued ? 'there' : 'not there' };
}

async function tickOf(world: CrashWorld, runs: Runs): Promise<Structure> {
  const tick = await world.client.temporal.workflow.getHandle(tickId(runs)).describe();
  const started = await eventTypes(world, runWorkflowId(runs.ticked)).catch(() => []);
  return { workflow: tick.status.name, next: started.length > 0 ? 'there' : 'not there' };
}

/** Waits until every run of the wave has closed by itself, has the three witnesses compared, and reads each ending. */
export async function settle(
  world: CrashWorld,
  kill: Kill,
  blow: {
    readonly at: ReadonlyMap<string, number>;
    readonly seen: ReadonlyMap<string, AtTheBlow>;
  },
): Promise<Wave> {
  const runs = runsOf(kill);
  const structured = kill === 'W' || kill === 'T';
  const all = structured ? [runs.main, runs.continued, runs.ticked] : [runs.main];
  // The tick first: until it has started its run there is nothing to wait for.
  if (structured) await world.client.temporal.workflow.getHandle(tickId(runs)).result();
  await Promise.all(all.map(async (run) => world.client.run(run).result()));
  if (kill === 'W' || kill === 'P') await purgeEnds(world, kill);
  for (const run of all) {
    await assertInvariants({
      databaseUrl: world.databaseUrl,
      simulator: world.simulator,
      temporal: world.client.temporal,
      run,
      faultsFired: false,
    });
  }
  const wave: Wave = new Map();
  for (const { id, point, customer } of cellsOf(kill)) {
    const atTheBlow = blow.seen.get(id);
    const at = blow.at.get(id) ?? blow.at.get('all');
    if (atTheBlow === undefined || at === undefined) continue;
    const { ending, endedAt } = await endOf(world, runs, { point, customer, kill });
    const inSlot = slotCellsOf(kill).some((cell) => cell.id === id);
    const trace = inSlot ? await traceOf(world, `${runWorkflowId(runs.main)}/${customer}`) : '';
    wave.set(id, { atTheBlow, ending, recoveryMs: endedAt - at, trace });
  }
  return wave;
}

async function endOf(
  world: CrashWorld,
  runs: Runs,
  { point, customer, kill }: Pick<Cell, 'point' | 'customer' | 'kill'>,
): Promise<{ readonly ending: Seen['ending']; readonly endedAt: number }> {
  if (point === 'C16') {
    const { inbox, endedAt } = await inboxOf(world, kill);
    return { ending: inbox, endedAt };
  }
  if (point !== 'C14' && point !== 'C15') return endingOf(world, runs.main, customer);
  const run = point === 'C14' ? runs.continued : runs.ticked;
  const { groups } = world.simulator.ledger({ period: run.period });
  const charged = groups.reduce((sum, group) => sum + group.succeeded, 0);
  const found = point === 'C14' ? await shardOf(world, runs) : await tickOf(world, runs);
  return { ending: { ...found, charged }, endedAt: await runEndedAt(world, run) };
}

/** Waits until the charge of this customer has completed, and no workflow task has begun since. */
export async function completionStored(
  world: CrashWorld,
  run: RunRef,
  customer: string,
): Promise<string | undefined> {
  const types = () => eventTypes(world, `${runWorkflowId(run)}/${customer}`);
  await waitFor(async () => (await types()).includes('activityTaskCompleted'), {
    timeoutMs: WAIT_MS,
  });
  return (await types()).at(-1);
}

export function c11(kill: Kill): string {
  return customerOf('C11', kill);
}
