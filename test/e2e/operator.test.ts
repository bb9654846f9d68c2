import { readFileSync } from 'node:fs';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import {
  chargesByCustomer,
  customersCsv,
  expectCode,
  goodCustomers,
  testHome,
  type Running,
  type TestHome,
} from '../support/cli.ts';

const change = z.object({ setting: z.string(), from: z.string().nullable(), to: z.string() });
const ensured = z.object({ action: z.string(), changes: z.array(change) });

/** More than the window of charges under way, so that an order in the middle leaves somebody out. */
const MANY = 140;

let home: TestHome;
let up: Running;
let simulatorUrl: string;

beforeAll(async () => {
  home = await testHome({ CHARGES_PER_SECOND: '12' });
  up = home.start(['up', '--json']);
  const [line] = await up.shows(/^\{"home".*\}$/m);
  ({ simulatorUrl } = z.object({ simulatorUrl: z.string() }).parse(JSON.parse(line)));
});

async function importCustomers(customers: Parameters<typeof customersCsv>[0]): Promise<void> {
  const args = ['import', 'customers', '-', '--json'];
  expectCode(await home.run(args, { input: customersCsv(customers) }), 0);
}

describe('with one stack shared by every command of a home', () => {
  it('a second run of a period under way attaches to it, and both end with the same result', async () => {
    const nobody = await home.run(['run', '2026-01', '--wait', '--json']);
    expectCode(nobody, 2);
    expect(nobody.json()['error']).toMatch(/no active customers.*import customers FILE\.csv/);
    await importCustomers(goodCustomers(30));
    const first = home.start(['run', '2026-01', '--wait', '--json']);
    await first.shows(/started billing-2026-01/);
    const second = await home.run(['run', '2026-01', '--wait', '--json']);
    expectCode(second, 0);
    expect(second.stderr).toMatch(/billing-2026-01 is under way already: attached to it/);
    const counts = { charged: 30, doubleCharged: 0, lost: 0, state: 'completed' };
    expect(second.json()).toMatchObject(counts);
    const done = await first.ended;
    expectCode(done, 0);
    expect(done.json()).toMatchObject(counts);
    const charges = await chargesByCustomer(simulatorUrl, '2026-01');
    expect(charges.size).toBe(30);
    expect(new Set(charges.values())).toEqual(new Set([1]));
  });

  it('keeps the Stripe key from every part but the vault, through which the run above has gone', async () => {
    const parts = z.object({ parts: z.array(z.object({ name: z.string(), pid: z.number() })) });
    const [line] = await up.shows(/^\{"home".*\}$/m);
    const holders = parts.parse(JSON.parse(line)).parts.filter(({ pid }) => {
      const environment = readFileSync(`/proc/${pid}/environ`, 'utf8');
      return /STRIPE_API_KEY=|sk_test_/.test(environment);
    });
    expect(holders.map(({ name }) => name)).toEqual(['vault']);
    const keys = await home.run(['vault', 'keys', 'list', '--json']);
    expectCode(keys, 0);
    expect(keys.json()).toMatchObject({
      keys: [
        { billing_period: '2026-01', caps: [{ expected: 30_000, cap: 33_000, spent: 30_000 }] },
      ],
    });
  });

  it('run without --wait returns at once and the shared worker bills it', async () => {
    const started = await home.run(['run', '2026-02', '--json']);
    expectCode(started, 0);
    expect(started.json()).toMatchObject({ workflowId: 'billing-2026-02', started: true });
    const waited = await home.run(['run', '2026-02', '--wait', '--json']);
    expectCode(waited, 0);
    expect(waited.json()).toMatchObject({ charged: 30, state: 'completed' });
  });

  it('rerun charges a declined customer after a new payment method is imported, and nobody twice', async () => {
    const poor = { id: 'c2', card: 'pm_card_chargeCustomerFail' };
    await importCustomers([{ id: 'c1' }, poor]);
    expectCode(await home.run(['run', '2026-05', '--wait']), 0);
    const why = ['--reason', 'new card on file', '--json'];

    await importCustomers([{ id: 'c2', card: 'pm_card_mastercard' }]);
    const charged = await home.run(['rerun', '2026-05', 'c2', ...why]);
    expectCode(charged, 0);
    expect(charged.json()).toMatchObject({ answer: 'accepted', state: 'charged', generation: 2 });
    const again = await home.run(['rerun', '2026-05', 'c2', ...why]);
    expectCode(again, 0);
    expect(again.json()['answer']).toBe('alreadyCharged');
    const unknown = await home.run(['rerun', '2026-05', 'nobody', ...why]);
    expectCode(unknown, 2);
    expect(unknown.json()['answer']).toBe('unknownCustomer');
    const unplanned = await home.run(['rerun', '2027-05', 'c2', ...why]);
    expectCode(unplanned, 1);
    expect(unplanned.json()['error']).toContain('nothing to rerun');
    expect((await chargesByCustomer(simulatorUrl, '2026-05')).get('c2')).toBe(1);
    expectCode(await home.run(['audit', '2026-05']), 0);
  });

  it('pause ends a waiting run with what to do, resume lets it go on to its end', async () => {
    await importCustomers(goodCustomers(MANY));
    const waiting = home.start(['run', '2026-03', '--wait', '--json']);
    await waiting.shows(/charged [1-9]/);
    const pause = await home.run([
      'pause',
      '2026-03',
      '--reason',
      'a wrong price',
      '--operator',
      'eve',
    ]);
    expectCode(pause, 0);
    const paused = await waiting.ended;
    expectCode(paused, 3);
    expect(paused.stderr).toContain('paused by eve: a wrong price');
    expect(paused.stderr).toContain('"chargeonce resume 2026-03 --reason …"');

    const resume = await home.run(['resume', '2026-03', '--reason', 'price is right', '--json']);
    expectCode(resume, 0);
    expect(Number(resume.json()['chargesToFire'])).toBeGreaterThan(0);
    const done = await home.run(['run', '2026-03', '--wait', '--json']);
    expectCode(done, 0);
    expect(done.json()).toMatchObject({ charged: MANY, doubleCharged: 0, lost: 0 });
  });

  it('stop ends a waiting run with its counts; run again goes on with who is left, each charged once', async () => {
    const waiting = home.start(['run', '2026-04', '--wait', '--json']);
    await waiting.shows(/charged [1-9]/);
    expectCode(await home.run(['stop', '2026-04', '--reason', 'wrong month']), 0);
    const stopped = await waiting.ended;
    expectCode(stopped, 3);
    expect(stopped.json()['state']).toBe('stopped');
    const charged = Number(stopped.json()['charged']);
    expect(charged).toBeGreaterThan(0);
    expect(charged).toBeLessThan(MANY);
    expect((await chargesByCustomer(simulatorUrl, '2026-04')).size).toBe(charged);
    const late = await home.run(['pause', '2026-04', '--reason', 'again']);
    expectCode(late, 1);
    expect(late.stderr).toContain('billing-2026-04 is not under way: there is nothing to pause');

    const again = await home.run(['run', '2026-04', '--wait', '--json']);
    expectCode(again, 0);
    expect(again.stderr).toMatch(
      /2026-04 was stopped: it goes on with the customers that are left/,
    );
    expect(again.json()).toMatchObject({ charged: MANY, doubleCharged: 0, lost: 0 });
  });

  it('schedule ensure creates, then changes nothing, then shows from and to; --dry-run only shows', async () => {
    const ensure = async (...more: string[]) => {
      const done = await home.run(['schedule', 'ensure', '--json', ...more]);
      expectCode(done, 0);
      return ensured.parse(done.json());
    };

    expect((await ensure('--dry-run')).action).toBe('created');
    expect((await ensure()).action).toBe('created');
    expect(await ensure()).toMatchObject({ action: 'unchanged', changes: [] });
    const moved = ['--day', '5', '--zone', 'Europe/Berlin'];
    const shown = await ensure(...moved, '--dry-run');
    expect(shown.changes).toContainEqual({
      setting: 'time zone',
      from: 'UTC',
      to: 'Europe/Berlin',
    });
    expect(await ensure(...moved)).toMatchObject({ action: 'updated', changes: shown.changes });
    const described = await home.run(['schedule', 'describe', '--json']);
    expect(described.json()).toMatchObject({ timezone: 'Europe/Berlin', catchupWindowHours: 72 });
    const by = ['--operator', 'olga', '--reason', 'prices change'];
    const paused = await home.run(['schedule', 'pause', ...by, '--json']);
    expect(paused.json()).toEqual({ paused: true, note: 'paused by olga: prices change' });
    expect((await home.run(['schedule', 'describe', '--json'])).json()).toMatchObject({
      paused: true,
      note: 'paused by olga: prices change',
    });
    const resumed = await home.run(['schedule', 'resume', ...by, '--json']);
    expect(resumed.json()).toMatchObject({ paused: false });
    const removed = await home.run(['schedule', 'remove', ...by, '--json']);
    expect(removed.json()).toEqual({ removed: true });
    const gone = await home.run(['schedule', 'resume', ...by]);
    expectCode(gone, 1);
    expect(gone.stderr).toContain('create it with "chargeonce schedule ensure"');
  });

  it('a port that another setting demands while the stack runs is refused with who holds it', async () => {
    const refused = await home.run(['status', '2026-01'], { env: { POSTGRES_PORT: '45678' } });
    expectCode(refused, 5);
    expect(refused.stderr).toMatch(/PostgreSQL already runs .*other settings \(port\)/);
  });

  it('Ctrl-C on up stops every part, and no other command has left one', async () => {
    up.kill('SIGINT');
    expectCode(await up.ended, 0);
    expect(home.processes()).toEqual([]);
  });
});
