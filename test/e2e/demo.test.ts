import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { customersCsv, expectCode, testHome, type TestHome } from '../support/cli.ts';

const CARDS = ['pm_card_visa', 'pm_card_mastercard', 'pm_card_amex', 'pm_card_visa_debit'];

/** 60 customers: every tenth declined, four without a payment method, one with nothing due. */
const CUSTOMERS = Array.from({ length: 60 }, (_, index) => {
  const id = `d${index + 1}`;
  if (index % 10 === 3) return { id, card: 'pm_card_chargeCustomerFail', amount: '20.00' };
  if (index % 15 === 5) return { id, card: '' };
  if (index === 59) return { id, amount: '0' };
  const currency = index % 7 === 0 ? 'jpy' : 'usd';
  return {
    id,
    card: CARDS[index % 4] ?? '',
    currency,
    amount: currency === 'jpy' ? '500' : '9.99',
  };
});

const report = z.object({
  period: z.string(),
  customers: z.number(),
  charged: z.number(),
  declined: z.number(),
  indeterminate: z.number(),
  skipped: z.number(),
  blocked: z.number(),
  misconfigured: z.number(),
  doubleCharged: z.number(),
  lost: z.number(),
  amountMinorByCurrency: z.record(z.string(), z.number()),
  seconds: z.number().positive(),
  customersPerSecond: z.number().positive(),
  faultsFired: z.number(),
  audit: z.string(),
});

const workflows = z.object({
  executions: z.array(
    z.object({
      execution: z.object({ workflowId: z.string() }),
      searchAttributes: z.object({
        indexedFields: z.record(z.string(), z.object({ data: z.string() })),
      }),
    }),
  ),
});

const deliveryList = z.object({ deliveries: z.array(z.object({ status: z.number() })) });

async function portsOf(home: TestHome) {
  const file = path.join(home.folder, 'home', 'demo', 'ports.json');
  const ports = z.object({ simulator: z.number(), server: z.number() });
  return ports.parse(JSON.parse(await readFile(file, 'utf8')));
}

describe('demo', () => {
  it('keeps its Temporal UI up on --keep, which lists each customer with the outcome, and its server took every webhook', async () => {
    const home = await testHome();
    const file = await home.file('customers.csv', customersCsv(CUSTOMERS));
    const quick = ['--no-faults', '--no-kill', '--keep'];
    const demo = home.start(['demo', '--file', file, '--period', '2026-09', ...quick]);
    const [, ui = ''] = await demo.shows(/Look around: (http:\/\/[\d.:]+)\//);

    const page = await fetch(`${ui}/`);
    expect(page.status).toBe(200);
    expect(page.headers.get('content-type')).toContain('text/html');
    const list = new URL('/api/v1/namespaces/default/workflows', ui);
    list.searchParams.set('query', "WorkflowType = 'customerCharge' AND BillingPeriod = '2026-09'");
    const { executions } = workflows.parse(await (await fetch(list)).json());
    const outcomes = new Map<string, number>();
    for (const { searchAttributes } of executions) {
      const { data = '' } = searchAttributes.indexedFields['BillingOutcome'] ?? {};
      const outcome = Buffer.from(data, 'base64').toString('utf8').replaceAll('"', '');
      outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
    }
    expect(Object.fromEntries(outcomes)).toEqual({ charged: 49, declined: 6, skipped: 5 });

    const { simulator, server } = await portsOf(home);
    expect((await fetch(`http://127.0.0.1:${server}/readyz`)).status).toBe(200);
    const hooks = await fetch(`http://127.0.0.1:${simulator}/_sim/webhooks`);
    const { deliveries } = deliveryList.parse(await hooks.json());
    // One for each customer who was charged or declined.
    expect(deliveries).toHaveLength(55);
    expect(new Set(deliveries.map(({ status }) => status))).toEqual(new Set([200]));

    demo.kill('SIGINT');
    await demo.ended;
    expect(home.processes()).toEqual([]);
  });

  it('with faults and a killed worker charges everyone once: clean audit, every number, nothing left', async () => {
    const home = await testHome();
    const file = await home.file('customers.csv', customersCsv(CUSTOMERS));
    const demo = await home.run(['demo', '--file', file, '--json']);
    expectCode(demo, 0);
    const done = report.parse(demo.json());
    expect(done).toMatchObject({
      customers: 60,
      charged: 49,
      declined: 6,
      skipped: 5,
      indeterminate: 0,
      blocked: 0,
      misconfigured: 0,
      doubleCharged: 0,
      lost: 0,
      audit: 'pass',
    });
    expect(done.faultsFired).toBeGreaterThan(0);
    expect(done.period).toBe(new Date().toISOString().slice(0, 7));
    expect(demo.stderr).toMatch(/killed the worker \(kill -9 \d+\) in the middle of the run/);
    expect(home.processes()).toEqual([]);
  });
});
