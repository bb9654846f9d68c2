import { Luck, eventually, pause } from './luck.ts';
import type { ChaosOptions } from './options.ts';
import type { PostgresLog } from './postgres-log.ts';
import { LONGEST_SQL_FAULT_MS, runSqlFault, SQL_FAULTS } from './sql-faults.ts';
import type { Tally } from './tally.ts';
import type { World } from './world.ts';

/** What every actor works with until the signal ends the fault phase. */
export interface Stage {
  readonly world: World;
  readonly options: ChaosOptions;
  readonly log: PostgresLog;
  /** faults that took effect */
  readonly fired: Tally;
  readonly note: (message: string) => void;
  readonly signal: AbortSignal;
}

/** One source of trouble; returns when the signal has come and what it did is undone. */
export type Actor = (stage: Stage) => Promise<void>;

/** Past the heartbeat time-out of ten seconds, so that others have taken over when it wakes. */
const FREEZE_MS = [12_000, 14_000] as const;
/** After the first kill: it needs both. */
const FIRST_FREEZE_MS = [12_000, 15_000] as const;
const ROLL_AFTER_MS = [1_000, 4_000] as const;
const FREEZE_AFTER_MS = [6_000, 15_000] as const;
const WORKERS_BUSY_MS = 300;
/** Before the first kill and the first crash: some of the rarer faults need a busy moment. */
const HEAD_START_MS = 3_000;
const BETWEEN_SQL_FAULTS_MS = 500;
const SERVER_KILL_MS = [10_000, 20_000] as const;
const VAULT_KILL_MS = [7_000, 15_000] as const;
const TEMPORAL_DOWN_MS = [500, 3_000] as const;
const KEYS_AGE_MS = 25 * 3_600_000;

export const killWorkers: Actor = async ({ world, options, fired, signal }) => {
  const luck = new Luck(options.seed, 'worker.kill9');
  let headStartMs = HEAD_START_MS;
  for (;;) {
    await pause(luck.between(options.workerKillMs) + headStartMs, signal);
    headStartMs = 0;
    if (signal.aborted) return;
    const index = Math.floor(luck.next() * 2);
    // Whoever is alone is left to work; the next chance is taken.
    const mayKill = async () => options.killLast || world.workers.ready > 1;
    await eventually(mayKill, { timeoutMs: options.faultMs, pollMs: 50, signal });
    if (signal.aborted) return;
    if ((await world.workers.kill(index)) !== null) fired.add('worker.kill9');
  }
};

/** Frozen ones wake up as zombies; between two freezes one is restarted gently. */
export const freezeAndRollWorkers: Actor = async ({ world, options, fired, signal }) => {
  const luck = new Luck(options.seed, 'worker.freeze');
  await pause(luck.between(FIRST_FREEZE_MS), signal);
  let freezes = true;
  while (!signal.aborted) {
    const done = freezes
      ? await world.workers.freeze(luck.between(FREEZE_MS), signal)
      : await world.workers.roll();
    if (!done) {
      // Both are starting just now.
      await pause(WORKERS_BUSY_MS, signal);
      continue;
    }
    fired.add(freezes ? 'worker.freeze' : 'worker.roll');
    await pause(luck.between(freezes ? ROLL_AFTER_MS : FREEZE_AFTER_MS), signal);
    freezes = !freezes;
  }
};

/** Stops at once or is killed, and between two crashes refuses in its other ways, one after the other. */
export const troublePostgres: Actor = async (stage) => {
  const { world, options, fired, signal } = stage;
  const luck = new Luck(options.seed, 'postgres');
  // In the order of their list at first: the rare ones meet the busiest moments.
  let queue = [...SQL_FAULTS];
  for (let turn = 0; !signal.aborted; turn += 1) {
    const headStartMs = turn === 0 ? HEAD_START_MS : 0;
    const crashAt = performance.now() + headStartMs + luck.between(options.postgresCrashMs);
    while (!signal.aborted && crashAt - performance.now() > LONGEST_SQL_FAULT_MS) {
      const [fault, ...rest] = queue;
      if (fault === undefined) {
        queue = luck.shuffled(SQL_FAULTS);
        continue;
      }
      const met = await runSqlFault(fault, stage).catch((error: unknown) => {
        stage.note(`${fault.name}: ${error instanceof Error ? error.message : String(error)}`);
        return false;
      });
      if (met) fired.add(fault.name);
      // What met nobody comes again before the next round of all.
      queue = met ? rest : [...rest, fault];
      await pause(BETWEEN_SQL_FAULTS_MS, signal);
    }
    await pause(Math.max(0, crashAt - performance.now()), signal);
    if (signal.aborted) return;
    const kills = turn % 2 === 1;
    await world.postgres.end(kills ? 'SIGKILL' : 'SIGQUIT');
    await world.postgres.start();
    fired.add(kills ? 'postgres.kill9' : 'postgres.immediateStop');
  }
};

/** Events come meanwhile, and are sent again by the provider. */
export const killServer: Actor = async ({ world, options, fired, signal }) => {
  const luck = new Luck(options.seed, 'server');
  for (;;) {
    await pause(luck.between(SERVER_KILL_MS), signal);
    if (signal.aborted) return;
    if (!world.server.ready) continue;
    await world.server.end('SIGKILL');
    fired.add('server.kill9');
  }
};

/** Charges are on their way through it: what it had forwarded is held until somebody asks Stripe. */
export const killVault: Actor = async ({ world, options, fired, signal }) => {
  const luck = new Luck(options.seed, 'vault');
  for (;;) {
    await pause(luck.between(VAULT_KILL_MS), signal);
    if (signal.aborted) return;
    if (!world.vault.ready) continue;
    await world.vault.end('SIGKILL');
    fired.add('vault.kill9');
  }
};

export const killTemporal: Actor = async ({ world, options, fired, signal }) => {
  const luck = new Luck(options.seed, 'temporal');
  for (;;) {
    await pause(luck.between(options.temporalKillMs), signal);
    if (signal.aborted) return;
    await world.temporal.end('SIGKILL');
    await pause(luck.between(TEMPORAL_DOWN_MS), signal);
    await world.temporal.start();
    fired.add('temporal.kill9');
  }
};

/** Events are sent late and twice, then not at all, then before the reply. What was not sent is made up for when all has healed. */
export const troubleWebhooks: Actor = async ({ world, options, signal }) => {
  const { webhook, stripe } = world;
  const luck = new Luck(options.seed, 'webhooks');
  for (;;) {
    for (const how of [{ copies: 2, delayMs: 5_000 }, null, { beforeReply: true }]) {
      await stripe.setWebhook(how === null ? null : { ...webhook, ...how });
      await pause(luck.between([3_000, 8_000]), signal);
      if (signal.aborted) return;
    }
  }
};

/**
 * All workers are down and 25 hours pass: the provider's clock goes on and forgets keys, and what our database
 * says about the first sends moves back by as much. Once in a run, twice would make 72 hours with the rest.
 */
export const letADayPass: Actor = async ({ world, options, fired, note, signal }) => {
  const luck = new Luck(options.seed, 'clock');
  await pause(options.faultMs * (0.45 + luck.next() * 0.2), signal);
  // Somebody's outcome must be open, or the day passes over nothing.
  const open = async () => (await openKeys(world)) > 0;
  await eventually(() => open().catch(() => false), {
    timeoutMs: options.faultMs,
    pollMs: 200,
    signal,
  });
  if (signal.aborted) return;
  await world.workers.without(async () => {
    // What left before the kill arrives first; the provider is a process away.
    await pause(500, AbortSignal.timeout(1_000));
    const aged = await eventually(() => ageKeys(world), {
      timeoutMs: 20_000,
      pollMs: 200,
      signal: AbortSignal.timeout(30_000),
    });
    if (!aged) return note('the keys could not be aged: PostgreSQL was away for too long');
    await world.stripe.advanceClock(KEYS_AGE_MS);
    fired.add('clock.past24h');
  });
};

async function openKeys(world: World): Promise<number> {
  const [row] = await world.query<{ n: number }>(
    `select count(*)::integer as n from charge_generations where outcome is null and first_sent_at is not null`,
  );
  return row?.n ?? 0;
}

/** Moves the first send of every undecided key into yesterday, and what the vault knows of it, each once. */
async function ageKeys(world: World): Promise<boolean> {
  try {
    await world.query(
      `update charge_generations set first_sent_at = first_sent_at - interval '25 hours'
       where outcome is null and first_sent_at > now() - interval '24 hours'`,
    );
    await world.query(
      `update vault_sends set first_forwarded_at = first_forwarded_at - interval '25 hours'
       where first_forwarded_at > now() - interval '24 hours'`,
    );
    return true;
  } catch {
    return false;
  }
}
