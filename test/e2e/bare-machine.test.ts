import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { customersCsv, expectCode, goodCustomers, testHome, waitFor } from '../support/cli.ts';

const FIVE = [
  { id: 'c1' },
  { id: 'c2', card: 'pm_card_chargeCustomerFail', amount: '12.50', currency: 'eur' },
  { id: 'c3', card: '', amount: '5.00' },
  { id: 'c4', amount: '0' },
  { id: 'c5', amount: '500', currency: 'jpy' },
];

describe('on a machine with nothing configured and nothing running', () => {
  it('import and run --wait bill the period, again charges nobody, and nothing is left running', async () => {
    // Not the cache that the other tests share, in which the workflows lie bundled.
    const cache = await mkdtemp(path.join(tmpdir(), 'chargeonce-cache-'));
    onTestFinished(() => rm(cache, { recursive: true }));
    const home = await testHome({ CHARGEONCE_CACHE: cache });
    const file = await home.file('customers.csv', customersCsv(FIVE));

    const imported = await home.run(['import', 'customers', file, '--json']);
    expectCode(imported, 0);
    expect(imported.json()).toMatchObject({ ok: true, rows: 5, inserted: 5 });

    const billed = await home.run(['run', '2026-09', '--wait', '--json']);
    expectCode(billed, 0);
    expect(billed.json()).toMatchObject({
      period: '2026-09',
      state: 'completed',
      customers: 5,
      charged: 2,
      declined: 1,
      indeterminate: 0,
      skipped: 2,
      blocked: 0,
      misconfigured: 0,
      doubleCharged: 0,
      lost: 0,
      amountMinorByCurrency: { usd: 1000, jpy: 500 },
      alreadyCompleted: false,
    });
    expect(Number(billed.json()['seconds'])).toBeGreaterThan(0);
    expect(Number(billed.json()['customersPerSecond'])).toBeGreaterThan(0);

    const again = await home.run(['run', '2026-09', '--wait', '--json']);
    expectCode(again, 0);
    expect(again.json()).toMatchObject({ alreadyCompleted: true, charged: 2, doubleCharged: 0 });
    expect(again.stderr).toMatch(/billing-2026-09 is completed: nobody is charged again/);

    const audit = await home.run(['audit', '2026-09', '--json']);
    expectCode(audit, 0);
    expect(audit.json()).toMatchObject({
      verdict: 'pass',
      charged: 2,
      doubleCharged: 0,
      lost: 0,
      witnesses: { provider: { records: 3 }, temporal: { records: 5 } },
    });
    expect(home.processes()).toEqual([]);
  });

  it('Ctrl-C, then kill -9, in the middle of a run: the third try finishes it, everyone charged once', async () => {
    const home = await testHome({ CHARGES_PER_SECOND: '6' });
    const file = await home.file('customers.csv', customersCsv(goodCustomers(40)));
    expectCode(await home.run(['import', 'customers', file]), 0);

    const first = home.start(['run', '2026-09', '--wait', '--json']);
    await first.shows(/charged [1-9]/);
    first.kill('SIGINT');
    const interrupted = await first.ended;
    expectCode(interrupted, 130);
    expect(interrupted.stderr).toContain('goes on when you run this command again');
    const soFar = Number(interrupted.json()['charged']);
    expect(soFar).toBeGreaterThan(0);
    expect(soFar).toBeLessThan(40);
    expect(home.processes()).toEqual([]);

    const second = home.start(['run', '2026-09', '--wait', '--json']);
    await second.shows(/attached/);
    await waitFor(() => /charged \d+[^]*charged \d+/.test(second.output()), { timeoutMs: 60_000 });
    second.kill('SIGKILL');
    await second.ended;
    await home.idle();
    const third = await home.run(['run', '2026-09', '--wait', '--json']);
    expectCode(third, 0);
    expect(third.json()).toMatchObject({
      state: 'completed',
      customers: 40,
      charged: 40,
      doubleCharged: 0,
      lost: 0,
      amountMinorByCurrency: { usd: 40_000 },
    });
    expect(home.processes()).toEqual([]);
  });
});
