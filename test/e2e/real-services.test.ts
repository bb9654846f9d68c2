import { readdirSync, readFileSync } from 'node:fs';
import { userInfo } from 'node:os';
import path from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { openDatabase } from '../../src/db/database.ts';
import { startTemporal } from '../support/chaos.ts';
import {
  chargesByCustomer,
  commandLine,
  customersCsv,
  expectCode,
  goodCustomers,
  ledgerEntries,
  testHome,
  waitFor,
  type TestHome,
} from '../support/cli.ts';
import { startPostgres } from '../support/postgres.ts';

async function scheduleOrders(url: string) {
  const database = openDatabase({ url, applicationName: 'test', onError: () => {} });
  try {
    return await database.db
      .selectFrom('audit_log')
      .select(['action', 'actor', 'reason'])
      .where('action', 'like', 'schedule.%')
      .orderBy('id')
      .execute();
  } finally {
    await database.close();
  }
}

const SECRET = 'sk_test_0123456789secret';

/** Every log file of a home, as one text. */
function logsOf(home: TestHome): string {
  const folder = path.join(home.folder, 'home', 'logs');
  return readdirSync(folder)
    .map((name) => readFileSync(path.join(folder, name), 'utf8'))
    .join('\n');
}

describe('with a Stripe key and another host, and all else embedded', () => {
  let home: TestHome;
  let url: string;
  const stripe = () => ({ STRIPE_API_KEY: SECRET, STRIPE_API_BASE: url });

  beforeAll(async () => {
    const host = await testHome();
    const simulator = host.start(['simulator', '--port', '0', '--json']);
    [, url = ''] = await simulator.shows(/"url":"([^"]+)"/);
    home = await testHome(stripe());
  });

  it('import and run --wait bill against that host, and no secret is seen anywhere', async () => {
    const input = customersCsv(goodCustomers(8));
    expectCode(await home.run(['import', 'customers', '-'], { input }), 0);
    const billing = home.start(['run', '2026-09', '--wait', '--json']);
    const seen = new Set<string>();
    let over = false;
    void billing.ended.then(() => (over = true));
    await waitFor(
      () => {
        for (const line of home.processes()) seen.add(commandLine(Number(line.split(' ')[0])));
        return over;
      },
      { timeoutMs: 60_000 },
    );
    const billed = await billing.ended;
    expectCode(billed, 0);
    expect(billed.json()).toMatchObject({ charged: 8, doubleCharged: 0, lost: 0 });
    const charges = await chargesByCustomer(url, '2026-09');
    expect([...charges.values()]).toEqual(Array.from({ length: 8 }, () => 1));

    // Worker, PostgreSQL, Temporal and the command itself were looked at while they ran.
    expect(seen.size).toBeGreaterThanOrEqual(4);
    const password = readFileSync(path.join(home.folder, 'home', 'postgres', 'password'), 'utf8');
    expect(password.trim().length).toBeGreaterThan(10);
    const tokens = z
      .object({ runToken: z.string(), adminToken: z.string() })
      .parse(JSON.parse(readFileSync(path.join(home.folder, 'home/vault/tokens.json'), 'utf8')));
    const everything = [...seen, billed.output, logsOf(home)].join('\n');
    const secrets = [SECRET, password.trim(), tokens.runToken, tokens.adminToken];
    for (const secret of secrets) expect(everything).not.toContain(secret);
    expect(everything).not.toMatch(/vk_test_[0-9a-f]{16}_/);
    expect([...seen].filter((line) => line.includes('cli.ts vault '))).toHaveLength(1);
  });

  it("another account's key is refused with the reason, and nothing reaches that account", async () => {
    const before = (await ledgerEntries(url)).length;
    const refused = await home.run(['run', '2026-10', '--wait', '--json'], {
      env: { STRIPE_API_KEY: 'sk_test_another' },
    });
    expectCode(refused, 2);
    expect(refused.json()['error']).toMatch(
      /this database belongs to Stripe account acct_\w+ in test mode, but STRIPE_API_KEY is for acct_/,
    );
    expect(refused.output).not.toContain('sk_test_another');
    expect((await ledgerEntries(url)).length).toBe(before);
    expectCode(await home.run(['status', '2026-10']), 1);
  });

  it('a key that Stripe does not take is refused with what to do', async () => {
    const refused = await home.run(['run', '2026-10', '--wait'], {
      env: { STRIPE_API_KEY: 'sk_test_revoked' },
    });
    expectCode(refused, 2);
    expect(refused.stderr).toMatch(/does not take this STRIPE_API_KEY \(401\).*Set it anew/);
  });
});

describe('with a PostgreSQL and a Temporal of its own', () => {
  it('setup says what it would do, does it once, and the same commands then bill there', async () => {
    const postgres = await startPostgres({ fsync: 'on' });
    const { url } = await postgres.createDatabase();
    const temporal = await startTemporal({ bare: true });
    const home = await testHome({
      DATABASE_URL: url,
      TEMPORAL_ADDRESS: temporal.address,
    });
    const input = customersCsv(goodCustomers(6));
    const early = await home.run(['import', 'customers', '-'], { input });
    expectCode(early, 5);
    expect(early.stderr).toMatch(/lacks \d+ migrations .*run "chargeonce setup" first/);
    const sick = await home.run(['doctor', '--json']);
    expectCode(sick, 1);
    expect(JSON.stringify(sick.json())).toContain('run \\"chargeonce setup\\"');

    const plan = await home.run(['setup', '--dry-run', '--json']);
    expectCode(plan, 0);
    expect(plan.json()).toMatchObject({
      applied: false,
      searchAttributes: ['BillingPeriod', 'BillingNamespace', 'BillingOutcome'],
      schedule: { action: 'created' },
    });
    const unasked = await home.run(['setup']);
    expectCode(unasked, 2);
    expect(unasked.stderr).toContain('add --yes');
    const done = await home.run(['setup', '--yes', '--json']);
    expectCode(done, 0);
    expect(done.json()).toMatchObject({ ...plan.json(), applied: true });
    const again = await home.run(['setup', '--yes', '--json']);
    expectCode(again, 0);
    expect(again.json()).toMatchObject({ migrations: [], searchAttributes: [], applied: false });

    expectCode(await home.run(['import', 'customers', '-'], { input }), 0);
    const billed = await home.run(['run', '2026-09', '--wait', '--json']);
    expectCode(billed, 0);
    expect(billed.json()).toMatchObject({ charged: 6, doubleCharged: 0, lost: 0 });
    expect(billed.stderr).toContain('no worker polls the task queues: one runs here');
    const doctor = await home.run(['doctor', '--json']);
    expectCode(doctor, 0);

    const by = ['--operator', 'olga', '--reason', 'prices change'];
    expectCode(await home.run(['schedule', 'pause', ...by]), 0);
    const paused = await home.run(['doctor', '--json']);
    expectCode(paused, 1);
    expect(JSON.stringify(paused.json())).toContain('run \\"chargeonce schedule resume');
    expectCode(await home.run(['schedule', 'ensure', '--day', '5', '--operator', 'eve']), 0);
    expectCode(await home.run(['schedule', 'remove', ...by]), 0);
    expect(await scheduleOrders(url)).toEqual([
      { action: 'schedule.set_ordered', actor: userInfo().username, reason: 'chargeonce setup' },
      { action: 'schedule.pause_ordered', actor: 'olga', reason: 'prices change' },
      { action: 'schedule.set_ordered', actor: 'eve', reason: 'settings of the schedule' },
      { action: 'schedule.remove_ordered', actor: 'olga', reason: 'prices change' },
    ]);
    expect(home.processes()).toEqual([]);
  });
});
