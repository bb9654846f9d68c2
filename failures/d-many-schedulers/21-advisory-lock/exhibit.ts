import type { Exhibit } from '../../harness/exhibit.ts';
import { gateFor } from '../../harness/gate.ts';
import type { TemptingWorld } from '../../harness/tempting-world.ts';
import type { WireAction } from '../../harness/wire-server.ts';
import { openPool } from '../../harness/pool.ts';
import { runSql } from '../databases.ts';
import { SCHEMA } from './billed.ts';
import { billEverybody as fixed } from './fixed.ts';
import { withLockOfPool } from './locks.ts';
import { billEverybody as tempting } from './tempting.ts';

type Way = 'tempting' | 'fixed';

const REPLICA = new URL('./replica.ts', import.meta.url);
/** The first is billed behind a pool, the second with a connection that is cut. */
const CUSTOMERS = 2;
/** As a firewall, a failover or an operator ends a session. */
const CUT_THE_HOLDER = `
  SELECT pg_terminate_backend(pid) FROM pg_locks JOIN pg_database ON oid = database
  WHERE locktype = 'advisory' AND granted AND datname = current_database()`;
const CUT_OUR_WORKERS = `
  SELECT pg_terminate_backend(pid) FROM pg_stat_activity
  WHERE datname = current_database() AND application_name = 'chargeonce worker'`;

/** One process with a pool: while the first job charges, the trigger comes a second time. */
async function behindThePool(world: TemptingWorld, way: Way, databaseUrl: string): Promise<void> {
  const customers = world.customers.slice(0, 1);
  const billEverybody = way === 'fixed' ? fixed : tempting;
  const pool = openPool(databaseUrl);
  const charging = gateFor(2);
  let second: Promise<void> | undefined;
  const wire = await world.wire(async (): Promise<WireAction> => {
    second ??= trigger();
    await charging.pass();
    return 'forward';
  });
  const trigger = async (): Promise<void> => {
    await billEverybody({ ...world, customers, stripeUrl: wire.url }, pool, withLockOfPool);
    charging.leave();
  };
  await trigger();
  await second;
  await pool.end();
}

/** Two processes: while the first charges, its session is cut, and the lock is free. */
async function lostInMidRun(world: TemptingWorld, way: Way, databaseUrl: string): Promise<void> {
  const charging = gateFor(2);
  let cut: Promise<void> | undefined;
  await world.wire(async (): Promise<WireAction> => {
    cut ??= runSql(databaseUrl, CUT_THE_HOLDER);
    await cut;
    await charging.pass();
    return 'forward';
  });
  const env = { WAY: way, DATABASE_URL: databaseUrl, CUSTOMER: world.customers[1]?.id ?? '' };
  const replica = async (): Promise<void> => {
    await world.replicas(REPLICA, 1, env);
    charging.leave();
  };
  await Promise.all([replica(), replica()]);
}

async function both(world: TemptingWorld, way: Way): Promise<void> {
  const databaseUrl = await world.database();
  await runSql(databaseUrl, SCHEMA);
  await behindThePool(world, way, databaseUrl);
  await lostInMidRun(world, way, databaseUrl);
}

export const advisoryLock: Exhibit = {
  number: 21,
  name: 'advisory-lock',
  room: 'D',
  title: 'an advisory lock: twice through a pool, and lost in mid-run',
  rule: 'A lock belongs to a session, and a session ends when it likes. Nothing that money hangs on may need it to last.',
  harm: 'chargedAgain',
  harmed: CUSTOMERS,
  customers: CUSTOMERS,
  tempting: (world) => both(world, 'tempting'),
  fixed: (world) => both(world, 'fixed'),
  async ours(world) {
    const { client, run, databaseUrl } = world;
    let cut: Promise<void> | undefined;
    await world.wire(async ({ path }): Promise<WireAction> => {
      if (path.endsWith('/confirm')) await (cut ??= runSql(databaseUrl, CUT_OUR_WORKERS));
      return 'forward';
    });
    await Promise.all([world.addWorker(), world.addWorker()]);
    await Promise.all([client.startRun(run, 'first'), client.startRun(run, 'second')]);
    await client.run(run).result();
  },
};
