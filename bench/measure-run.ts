import { setTimeout as sleep } from 'node:timers/promises';
import { sql } from 'kysely';
import type { Platform } from '../src/cli/platform.ts';
import { parseBillingPeriod } from '../src/domain/billing-period.ts';
import { DEFAULT_NAMESPACE } from '../src/domain/namespace.ts';
import type { RunRef } from '../src/domain/ids.ts';
import { cpuMs, peakRssMb } from './processes.ts';
import { fillCustomers } from './stack.ts';

export interface RunMeasures {
  readonly customers: number;
  readonly charged: number;
  readonly seconds: number;
  readonly customersPerSecond: number;
  /** mean history events of a customer's own workflow */
  readonly eventsPerCustomer: number;
  /** events of the whole tree (run, shards, customers) per customer */
  readonly treeEventsPerCustomer: number;
  /** longest single history, and whose */
  readonly longestHistory: { readonly events: number; readonly workflowId: string };
  /** transactions of ours that wrote, per customer: assigned Postgres transaction ids */
  readonly commitsPerCustomer: number;
  readonly cpuMsPerCustomer: number;
  readonly cpuMsByPart: Readonly<Record<string, number>>;
  readonly workerPeakRssMb: number;
}

/** The period as a run of the base namespace. */
export function benchRun(period: string): RunRef {
  const parsed = parseBillingPeriod(period);
  if (!parsed.ok) throw new RangeError(parsed.problem);
  return { namespace: DEFAULT_NAMESPACE, period: parsed.period };
}

/** Bills `customers` in one run and measures it from the start of its workflow to its end. */
export async function measureRun(
  platform: Platform,
  run: RunRef,
  customers: number,
): Promise<RunMeasures> {
  const { db } = platform.database;
  await fillCustomers(db, customers);
  const client = await platform.client();
  const before = await snapshot(platform);
  const began = performance.now();
  await client.startRun(run, 'bench');
  const totals = await client.run(run).result();
  const seconds = (performance.now() - began) / 1000;
  const after = await snapshot(platform);
  const histories = await readHistories(platform, run, customers);
  const cpuMsByPart: Record<string, number> = {};
  for (const [name, ms] of Object.entries(after.cpu)) {
    cpuMsByPart[name] = round((ms - (before.cpu[name] ?? 0)) / customers);
  }
  return {
    customers,
    charged: totals.counts.charged,
    seconds: round(seconds),
    customersPerSecond: round(customers / seconds),
    ...histories,
    commitsPerCustomer: round((after.transactionId - before.transactionId) / customers),
    cpuMsPerCustomer: round(Object.values(cpuMsByPart).reduce((sum, ms) => sum + ms, 0)),
    cpuMsByPart,
    workerPeakRssMb: Math.round(after.workerPeakRssMb),
  };
}

async function snapshot(platform: Platform) {
  const { rows } = await sql<{ next: string }>`
    SELECT pg_snapshot_xmax(pg_current_snapshot())::text AS next`.execute(platform.database.db);
  const parts = (await platform.lease?.status()) ?? [];
  const cpu: Record<string, number> = {};
  for (const part of parts) if (part.pid !== undefined) cpu[part.name] = cpuMs(part.pid);
  const worker = parts.find((part) => part.name === 'worker')?.pid ?? 0;
  return { transactionId: Number(rows[0]?.next ?? 0), cpu, workerPeakRssMb: peakRssMb(worker) };
}

/** Visibility follows the histories; this long it may lag behind. */
const VISIBILITY_TRIES = 60;

async function readHistories(platform: Platform, run: RunRef, customers: number) {
  const client = await platform.client();
  const query = `BillingPeriod = '${run.period}' AND BillingNamespace = '${run.namespace}' AND ExecutionStatus != 'Running'`;
  for (let tried = 0; tried < VISIBILITY_TRIES; tried += 1) {
    let own = 0;
    let seen = 0;
    let all = 0;
    let longest = { events: 0, workflowId: '' };
    for await (const workflow of client.temporal.workflow.list({ query, pageSize: 1000 })) {
      all += workflow.historyLength;
      if (workflow.historyLength > longest.events) {
        longest = { events: workflow.historyLength, workflowId: workflow.workflowId };
      }
      if (workflow.type !== 'customerCharge') continue;
      own += workflow.historyLength;
      seen += 1;
    }
    if (seen >= customers) {
      return {
        eventsPerCustomer: round(own / seen),
        treeEventsPerCustomer: round(all / customers),
        longestHistory: longest,
      };
    }
    await sleep(1_000);
  }
  throw new Error(`the histories of ${run.period} did not all become visible`);
}

export function round(value: number): number {
  return Math.round(value * 100) / 100;
}
