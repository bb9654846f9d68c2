import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import {
  freezeAndRollWorkers,
  killServer,
  killTemporal,
  killVault,
  killWorkers,
  letADayPass,
  troublePostgres,
  troubleWebhooks,
  type Actor,
  type Stage,
} from './actors.ts';
import { customersFile, makeCustomers } from './customers.ts';
import { eventually, Luck, pause } from './luck.ts';
import {
  calmKill,
  claimAnswers,
  comeToRest,
  lateEvents,
  recoveryOf,
  standing,
  watchStates,
  webhookResults,
  zombies,
} from './observe.ts';
import type { ChaosOptions } from './options.ts';
import { controlOrders, giveOrders, hasPaused, resume, startTogether } from './orders.ts';
import { PostgresLog } from './postgres-log.ts';
import { judge } from './referee.ts';
import { decide, LEAST_UNDER_FAULTS, STATES, type ChaosResult } from './report.ts';
import { healSqlFaults, SQL_FAULTS } from './sql-faults.ts';
import { stripeFaults, STRIPE_KINDS } from './stripe-faults.ts';
import { stuck } from './stuck.ts';
import { Tally } from './tally.ts';
import { settleHolds } from './vault.ts';
import { startWorld, type Home, type World } from './world.ts';

export interface ChaosDeps {
  readonly home: Home;
  readonly note: (message: string) => void;
  readonly signal: AbortSignal;
}

/** The run shall last for most of the fault phase, so that every fault meets charges under way. */
const CHARGING_SHARE = 0.3;
const LEAST_PER_SECOND = 8;
const PROGRESS_MS = 5_000;
/** Bank debits settle within this on the provider's clock. */
const BANK_MS = 120_000;

const ACTORS: readonly Actor[] = [
  killWorkers,
  freezeAndRollWorkers,
  troublePostgres,
  killTemporal,
  killServer,
  killVault,
  troubleWebhooks,
  letADayPass,
  giveOrders,
];

const KINDS = [
  'worker.kill9',
  'worker.freeze',
  'worker.roll',
  'postgres.immediateStop',
  'postgres.kill9',
  'postgres.commitAnswerLost',
  ...SQL_FAULTS.map(({ name }) => name),
  'temporal.kill9',
  'server.kill9',
  'vault.kill9',
  'webhook.lost',
  'webhook.late',
  'webhook.duplicate',
  'clock.past24h',
  'trigger.together',
  'order.pause',
  'order.resume',
  ...STRIPE_KINDS.map((kind) => `stripe.${kind}`),
];

/** Brings everything up, charges under faults, heals, and lets the witnesses speak. */
export async function runChaos(options: ChaosOptions, deps: ChaosDeps): Promise<ChaosResult> {
  const { note, signal } = deps;
  const began = performance.now();
  const customers = makeCustomers(options.customers, options.seed);
  const world = await startWorld(deps.home, {
    chargesPerSecond: Math.max(
      LEAST_PER_SECOND,
      Math.ceil(options.customers / ((options.faultMs / 1_000) * CHARGING_SHARE)),
    ),
    note,
  });
  const file = path.join(world.home, 'customers.csv');
  await writeFile(file, customersFile(customers));
  await world.command(['import', 'customers', file]);
  await world.stripe.setWebhook(world.webhook);
  note('waiting for two workers');
  await eventually(async () => world.workers.ready === 2, {
    timeoutMs: 90_000,
    pollMs: 100,
    signal,
  });
  signal.throwIfAborted();
  const triggers = await startTogether(world);
  note(`started by ${triggers.triggers} triggers together; one worker is killed in calm`);
  const calmRecoveryMs = await calmKill(world, signal);
  signal.throwIfAborted();
  const seen = await faultPhase(world, options, deps);
  if ((await triggers.began) === 1) seen.fired.add('trigger.together', triggers.triggers);
  const healMs = await heal(world, { options, fired: seen.fired }, deps);
  signal.throwIfAborted();
  note('everything is at rest: reading database, provider and histories');
  const commits = world.proxy.stats();
  const { blows } = world.workers;
  return decide({
    options,
    judgement: await judge(world, customers),
    faults: seen.fired.toObject(),
    states: Object.fromEntries(seen.states),
    claimAnswers: (
      await claimAnswers(
        world,
        customers.map(({ id }) => id),
      )
    ).toObject(),
    sqlstates: (await seen.log.bySqlstate()).toObject(),
    commits: commits.commits,
    commitsLost: commits.dropped,
    calmRecoveryMs,
    settledUnderFaults: seen.settledUnderFaults,
    recovery: await recoveryOf(world, blows),
    zombies: await zombies(world, blows),
    webhooks: await webhookResults(world),
    workerStartMs: world.workers.medianStartMs,
    workersEndedUnasked: world.workers.unasked,
    healMs,
    seconds: Math.round((performance.now() - began) / 1000),
  });
}

interface PhaseSeen {
  readonly settledUnderFaults: number;
  readonly fired: Tally;
  readonly states: Map<string, number>;
  readonly log: PostgresLog;
}

/** All actors at once, until the time is over. */
async function faultPhase(
  world: World,
  options: ChaosOptions,
  deps: ChaosDeps,
): Promise<PhaseSeen> {
  const { note, signal } = deps;
  const fired = new Tally(KINDS);
  const log = new PostgresLog(world.postgres.log);
  const over = new AbortController();
  const phase = AbortSignal.any([signal, over.signal]);
  const stage: Stage = { world, options, log, fired, note, signal: phase };
  note(`faults at all layers for ${options.faultMs / 60_000} min (seed ${options.seed})`);
  await world.stripe.setFaults(stripeFaults(options.seed));
  const luck = new Luck(options.seed, 'commits');
  const droppedBefore = world.proxy.stats().dropped;
  world.proxy.dropRandomly({ rng: () => luck.next(), probability: options.commitLoss });
  const before = await standing(world);
  const states = new Map<string, number>();
  const watching = watchStates(world, states, phase);
  const telling = tellProgress(world, { fired, note, signal: phase });
  const timing = endInTime(stage, { over, states, settledBefore: before.settled });
  try {
    await Promise.all(ACTORS.map((actor) => actor(stage)));
  } finally {
    over.abort();
    await Promise.all([telling, timing, watching]);
  }
  const after = await standing(world);
  fired.add('postgres.commitAnswerLost', world.proxy.stats().dropped - droppedBefore);
  for (const [kind, count] of await world.stripe.faultsFired()) fired.add(`stripe.${kind}`, count);
  return { fired, states, log, settledUnderFaults: after.settled - before.settled };
}

/**
 * Ends the phase when its time is over and all that the verdict asks for has been seen, so that a busy machine gives
 * no "unknown". Late at most by so much, and not when nobody is left to charge.
 */
async function endInTime(
  { world, options, fired, note, signal }: Stage,
  seen: {
    readonly over: AbortController;
    readonly states: ReadonlyMap<string, number>;
    readonly settledBefore: number;
  },
): Promise<void> {
  await pause(options.faultMs, signal);
  const missing = async (): Promise<string[]> => {
    const ofStripe = await world.stripe.faultsFired();
    const { run, settled } = await standing(world);
    if (run === 'completed') return [];
    const underFaults = settled - seen.settledBefore;
    return [
      ...fired.never().filter((name) => ON_TIME.test(name)),
      ...STRIPE_KINDS.filter((kind) => !ofStripe.get(kind)).map((kind) => `stripe.${kind}`),
      ...STATES.filter((state) => !seen.states.has(state)),
      ...((await hasPaused(world)) ? [] : ['order.pause']),
      ...(underFaults < options.customers * LEAST_UNDER_FAULTS ? ['more who are settled'] : []),
    ];
  };
  const late = await missing();
  if (late.length > 0 && !signal.aborted) note(`a little longer, for ${late.join(', ')}`);
  await eventually(async () => (await missing()).length === 0, {
    timeoutMs: MOST_EXTRA_MS,
    pollMs: 250,
    signal,
  });
  seen.over.abort();
}

/** What is counted when it happens; the rest is counted in the end. */
const ON_TIME = /^(?:worker|temporal|server|vault|clock)\.|^postgres\.(?!commitAnswerLost)/;
const MOST_EXTRA_MS = 90_000;

/**
 * Ends every fault and waits until no outcome is open: how long that took, or null when the time was too short. What
 * was lost of the provider's events stays lost until then, and comes twice afterwards, when it must change nothing.
 */
async function heal(
  world: World,
  { options, fired }: { options: ChaosOptions; fired: Tally },
  { note, signal }: ChaosDeps,
): Promise<number | null> {
  const began = performance.now();
  note('faults are over: waiting until nothing is open');
  world.proxy.dropRandomly({ rng: () => 1, probability: 0 });
  await world.stripe.setFaults(null);
  await healSqlFaults(world);
  await world.stripe.setWebhook(world.webhook);
  await resume(world);
  const telling = new AbortController();
  const told = tellProgress(world, {
    fired: null,
    note,
    signal: AbortSignal.any([signal, telling.signal]),
  });
  const settled = await eventually(
    async () => {
      const { run, open } = await standing(world);
      if (run === 'completed' && open === 0) return true;
      // Days pass for the banks.
      await world.stripe.advanceClock(BANK_MS);
      return false;
    },
    { timeoutMs: options.healMs, pollMs: 1_000, signal },
  );
  const healMs = Math.round(performance.now() - began);
  telling.abort();
  await told;
  if (!settled && !signal.aborted) for (const line of await stuck(world)) note(line);
  const orders = await controlOrders(world);
  fired.add('order.pause', orders.paused);
  fired.add('order.resume', orders.resumed);
  fired.add('webhook.late', await lateEvents(world));
  fired.add('webhook.lost', await world.stripe.redeliver(world.webhook.types ?? [], options.seed));
  fired.add('webhook.duplicate', await world.stripe.duplicates());
  await comeToRest(world, signal);
  await settleHolds(world, signal);
  world.vault.hold(true);
  await world.vault.end('SIGTERM');
  return settled ? healMs : null;
}

async function tellProgress(
  world: World,
  about: { fired: Tally | null; note: (message: string) => void; signal: AbortSignal },
): Promise<void> {
  const { fired, note, signal } = about;
  const began = performance.now();
  for (;;) {
    await pause(PROGRESS_MS, signal);
    if (signal.aborted) return;
    const { run, open, settled } = await standing(world);
    const at = Math.round((performance.now() - began) / 1000);
    const faults = fired === null ? '' : `, ${fired.total} faults beside the provider's`;
    note(
      `${at} s: ${run === '' ? 'the database is away' : `${run}, ${settled} settled, ${open} open`}${faults}`,
    );
  }
}
