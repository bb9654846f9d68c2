import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { TestWorkflowEnvironment } from '@temporalio/testing';
import { sql } from 'kysely';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { Client } from 'pg';
import { temporalPlace } from '../../src/client/temporal-place.ts';
import { registerEnvironment } from '../../src/cli/commands/environment.ts';
import { adoptEnvironment } from '../../src/db/adopt-environment.ts';
import { openDatabase, type Database } from '../../src/db/database.ts';
import {
  ensureEnvironment,
  EnvironmentMismatch,
  readDatabasePlace,
  readEnvironment,
  requireEnvironment,
  type WantedEnvironment,
} from '../../src/db/environment.ts';
import { plan } from '../../src/activities/run.ts';
import {
  attend,
  insertCustomers,
  migratedDatabase,
  refusedBy,
  runRef,
  slotRef,
  startEngine,
  TEST_KEY,
} from '../support/engine.ts';
import { runInProcess, type Commanded } from '../support/in-process.ts';
import { startPostgres, testPostgres } from '../support/postgres.ts';
import { startQuietDevServer, startStack } from '../support/stack.ts';
import { startUnlimited } from './simulator/support.ts';

const HERE: WantedEnvironment = {
  account: 'acct_mine',
  liveMode: false,
  temporal: { namespace: 'default', namespaceId: 'ns-1' },
};
const ORDER = { operator: 'alice', reason: 'restored on new hardware', accountChanged: false };

const open = (url: string): Database =>
  openDatabase({ url, applicationName: 'environment test', onError: () => {} });

let url: string;
let database: Database;

beforeEach(async () => {
  url = await migratedDatabase();
  database = open(url);
});
afterEach(() => database.close());

const adoptions = () =>
  database.db
    .selectFrom('audit_log')
    .select(['actor', 'reason', 'details'])
    .where('action', '=', 'environment.adopted')
    .execute();

async function mismatch(work: Promise<void>): Promise<readonly string[]> {
  const error = await work.then(
    () => null,
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof EnvironmentMismatch)) throw new Error(`no mismatch: ${String(error)}`);
  expect(error.message).toContain(
    error.differences.some(({ what }) => what.startsWith('stripe'))
      ? 'Use the key of that account'
      : 'chargeonce environment adopt',
  );
  return error.differences.map(({ what }) => what);
}

/** A clone by TEMPLATE of the database that the test works with. */
async function clone(): Promise<Database> {
  await database.close();
  const postgres = await testPostgres();
  const copy = await postgres.createDatabase({ template: new URL(url).pathname.slice(1) });
  database = open(url);
  return open(copy.url);
}

describe('binding', () => {
  it('happens once when workers start at the same moment', async () => {
    await Promise.all([1, 2, 3, 4].map(() => ensureEnvironment(database.db, HERE)));
    const bound = await readEnvironment(database.db);
    expect(bound).toMatchObject({ ...HERE, database: await readDatabasePlace(database.db) });
    const logged = await database.db.selectFrom('audit_log').select('action').execute();
    expect(logged).toEqual([{ action: 'environment.bound' }]);
  });

  it('is filled in at the next start for a database that an older version has bound to its account only', async () => {
    const old = { stripe_account: 'acct_mine', live_mode: false };
    await database.db.insertInto('environment').values(old).execute();
    await ensureEnvironment(database.db, HERE);
    expect((await readEnvironment(database.db))?.database?.systemIdentifier).toMatch(/^\d{10,}$/);
    expect(
      await mismatch(ensureEnvironment(database.db, { ...HERE, account: 'acct_other' })),
    ).toEqual(['stripe account']);
  });

  it('reads the server for a role without rights, and compares oid and name where it is forbidden', async () => {
    await sql`CREATE ROLE plain LOGIN PASSWORD 'plain'`.execute(database.db);
    await sql`GRANT SELECT ON ALL TABLES IN SCHEMA public TO plain`.execute(database.db);
    const asPlain = new URL(url);
    asPlain.username = 'plain';
    asPlain.password = 'plain';
    const plain = open(asPlain.href);
    const place = await readDatabasePlace(plain.db);
    expect(place.systemIdentifier).toMatch(/^\d{10,}$/);
    await ensureEnvironment(database.db, HERE);
    await sql`REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC`.execute(database.db);
    expect(await readDatabasePlace(plain.db)).toEqual({ ...place, systemIdentifier: null });
    await requireEnvironment(plain.db, HERE);
    await plain.close();
  });

  it('cannot be given up by deleting the row', async () => {
    await ensureEnvironment(database.db, HERE);
    await expect(database.db.deleteFrom('environment').execute()).rejects.toThrow('append-only');
    const renamed = database.db
      .updateTable('environment')
      .set({ database_id: sql`gen_random_uuid()` });
    expect(await refusedBy(renamed.execute())).toBe('database_keeps_its_id');
  });
});

describe('another place', () => {
  beforeEach(() => ensureEnvironment(database.db, HERE));

  it.each<[string, WantedEnvironment, string[]]>([
    ['another account', { ...HERE, account: 'acct_other' }, ['stripe account']],
    ['live mode', { ...HERE, liveMode: true }, ['stripe mode']],
    [
      'another Temporal of the same name',
      { ...HERE, temporal: { namespace: 'default', namespaceId: 'ns-2' } },
      ['temporal namespace id'],
    ],
    [
      'another namespace whose id may not be asked for',
      { ...HERE, temporal: { namespace: 'billing', namespaceId: null } },
      ['temporal namespace'],
    ],
  ])('is refused with %s', async (_what, wanted, differences) => {
    expect(await mismatch(ensureEnvironment(database.db, wanted))).toEqual(differences);
    expect(await mismatch(requireEnvironment(database.db, wanted))).toEqual(differences);
  });

  it('is a copy by TEMPLATE: it refuses until it is adopted, and then the original is not affected', async () => {
    const copy = await clone();
    const refused = await mismatch(ensureEnvironment(copy.db, HERE));
    expect(refused).toEqual(['database oid', 'database name']);
    const answer = await adoptEnvironment(copy.db, HERE, ORDER);
    expect(answer).toMatchObject({ kind: 'adopted' });
    await ensureEnvironment(copy.db, HERE);
    await ensureEnvironment(database.db, HERE);
    await copy.close();
  });

  it('is another server, even under the same name; a server that was stopped and started again is not', async () => {
    const other = await startPostgres({}, { ownIdentity: true });
    const before = open(other.url());
    const place = await readDatabasePlace(before.db);
    await before.close();
    // What a dump would bring along, beside what the other server says of itself.
    await sql`ALTER TABLE environment DISABLE TRIGGER USER`.execute(database.db);
    await database.db
      .updateTable('environment')
      .set({ system_identifier: place.systemIdentifier })
      .execute();
    await sql`ALTER TABLE environment ENABLE TRIGGER USER`.execute(database.db);
    expect(await mismatch(ensureEnvironment(database.db, HERE))).toEqual(['database server']);

    await other.restart();
    const after = open(other.url());
    expect(await readDatabasePlace(after.db)).toEqual(place);
    await after.close();
  });

  it('lets nothing be planned by a worker that is up when the database behind it is exchanged', async () => {
    const engine = await startEngine();
    await insertCustomers(engine.db, [{ id: 'cust_1' }]);
    const copy = await clone();
    await insertCustomers(copy.db, [{ id: 'cust_1' }]);
    const deps = engine.with({
      db: copy.db,
      requireEnvironment: () => requireEnvironment(copy.db, HERE),
    });
    await expect(plan(deps, runRef(), 'test')).rejects.toBeInstanceOf(EnvironmentMismatch);
    expect(await copy.db.selectFrom('billing_runs').selectAll().execute()).toEqual([]);
    await copy.close();
    await engine.close();
  });
});

describe('adopting', () => {
  const other: WantedEnvironment = { ...HERE, account: 'acct_other' };

  it('logs old and new once, however often it is ordered', async () => {
    await ensureEnvironment(database.db, HERE);
    const moved = { ...HERE, temporal: { namespace: 'default', namespaceId: 'ns-2' } };
    const answers = [];
    for (let i = 0; i < 2; i += 1) answers.push(await adoptEnvironment(database.db, moved, ORDER));
    expect(answers.map(({ kind }) => kind)).toEqual(['adopted', 'same']);
    const logged = await adoptions();
    expect(logged).toMatchObject([{ actor: 'alice', reason: ORDER.reason }]);
    expect(logged[0]?.details).toMatchObject({
      'old.temporalNamespaceId': 'ns-1',
      'new.temporalNamespaceId': 'ns-2',
    });
  });

  it('changes nothing on a database that no worker has bound', async () => {
    expect(await adoptEnvironment(database.db, HERE, ORDER)).toEqual({ kind: 'unbound' });
    expect(await readEnvironment(database.db)).toBeNull();
  });

  it('takes another account only when the order says that it is meant', async () => {
    await ensureEnvironment(database.db, HERE);
    expect(await adoptEnvironment(database.db, other, ORDER)).toMatchObject({
      kind: 'refused',
      why: expect.stringContaining('--account-changed'),
    });
    const meant = { ...ORDER, accountChanged: true };
    expect(await adoptEnvironment(database.db, other, meant)).toMatchObject({ kind: 'adopted' });
    await ensureEnvironment(database.db, other);
  });

  it('refuses another account while a worker is connected', async () => {
    await ensureEnvironment(database.db, HERE);
    const worker = new Client({ connectionString: url, application_name: 'chargeonce worker' });
    await worker.connect();
    const meant = { ...ORDER, accountChanged: true };
    const answer = await adoptEnvironment(database.db, other, meant);
    await worker.end();
    expect(answer).toMatchObject({ kind: 'refused', why: expect.stringContaining('stop them') });
  });

  it.each(['claimed', 'sent', 'indeterminate', 'in_review'])(
    'refuses another account while a slot is %s, by the order and by the database',
    async (state) => {
      const engine = await startEngine();
      await engine.plan([{ id: 'cust_1' }]);
      await attend(engine.deps, slotRef('cust_1'));
      await sql`ALTER TABLE billing_charges DISABLE TRIGGER USER`.execute(engine.db);
      await sql`UPDATE billing_charges SET state = ${sql.lit(state)}::slot_state, charge_id = NULL, settled_at = NULL,
        reason = ${['claimed', 'sent'].includes(state) ? null : 'x'}`.execute(engine.db);
      const meant = { ...ORDER, accountChanged: true };
      const wanted = { account: 'acct_other', liveMode: false };
      expect(await adoptEnvironment(engine.db, wanted, meant)).toMatchObject({
        kind: 'refused',
        why: expect.stringContaining('1 slots are open'),
      });
      const forced = engine.db.updateTable('environment').set({ stripe_account: 'acct_other' });
      expect(await refusedBy(forced.execute())).toBe('account_changes_with_no_slot_open');
      await engine.close();
    },
  );
});

describe('a worker and its Temporal', () => {
  let first: TestWorkflowEnvironment;
  let second: TestWorkflowEnvironment;
  let folder: string;

  beforeAll(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'chargeonce-environment-'));
    const dbFilename = path.join(folder, 'temporal.db');
    [first, second] = await Promise.all([
      startQuietDevServer({ dbFilename }),
      startQuietDevServer(),
    ]);
  });
  afterAll(async () => {
    await Promise.all([first.teardown(), second.teardown()]);
    await rm(folder, { recursive: true, force: true });
  });

  it('bind each other: another Temporal of the same name is refused until it is adopted, and then the first one is', async () => {
    const simulator = await startUnlimited();
    const at = { adopt: { databaseUrl: url, simulator } };
    const here = await startStack(first, at);
    await here.close();
    const bound = await readEnvironment(database.db);
    expect(bound?.temporal?.namespaceId).toMatch(/^[0-9a-f-]{36}$/);

    await expect(startStack(second, at)).rejects.toThrow('temporal namespace id');

    const command = (...args: string[]): Promise<Commanded> =>
      runInProcess(registerEnvironment, ['environment', ...args, '--json'], {
        DATABASE_URL: url,
        TEMPORAL_ADDRESS: second.address,
        TEMPORAL_CONFIG_FILE: '/dev/null',
        STRIPE_API_KEY: TEST_KEY,
        STRIPE_API_BASE: simulator.url,
      });
    const shown = await command('show');
    expect(shown.code).toBe(1);
    expect(shown.json()).toMatchObject({
      matches: false,
      differences: [{ what: 'temporal namespace id' }],
    });
    const unasked = await command('adopt', '--reason', 'new cluster');
    expect(unasked.code).toBe(2);
    expect(unasked.stderr).toContain('If another copy of it bills as well');
    const adopted = await command('adopt', '--reason', 'new cluster', '--operator', 'bob', '--yes');
    expect(adopted.json()).toMatchObject({ adopted: true });
    expect((await command('show')).json()).toMatchObject({ matches: true });

    const there = await startStack(second, at);
    await there.close();
    await expect(startStack(first, at)).rejects.toThrow('temporal namespace id');
    await simulator.close();
  });

  it('stay bound when the dev server starts again from its file', async () => {
    const placeOf = (env: TestWorkflowEnvironment) =>
      temporalPlace(env.connection.workflowService, 'default');
    const before = await placeOf(first);
    await first.teardown();
    first = await startQuietDevServer({ dbFilename: path.join(folder, 'temporal.db') });
    expect(await placeOf(first)).toEqual(before);
    expect(before.namespaceId).not.toBe((await placeOf(second)).namespaceId);
  });

  it('fall back to the name of the namespace only where the id may not be asked for', async () => {
    const failing = (code: number) => ({
      describeNamespace: () => Promise.reject(Object.assign(new Error('refused'), { code })),
    });
    expect(await temporalPlace(failing(7), 'billing')).toEqual({
      namespace: 'billing',
      namespaceId: null,
    });
    await expect(temporalPlace(failing(14), 'billing')).rejects.toThrow('refused');
  });
});
