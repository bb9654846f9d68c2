import type { ReasonCount, RunSummary } from '../db/run-summary.ts';
import { OUTCOMES, type OutcomeCounts } from '../domain/charge.ts';
import type { RunRef } from '../domain/ids.ts';
import { describeAmount } from '../domain/money-text.ts';
import { totalOf } from '../domain/outcome-counts.ts';
import { bold, green, red, table, yellow } from './output.ts';

/** The JSON object that `demo` and `run --wait` end with. Amounts in minor units. */
export interface RunReport extends OutcomeCounts {
  readonly period: string;
  readonly namespace: string;
  readonly state: string;
  readonly customers: number;
  /** customers with more than one successful charge, in the provider's own list; null when it could not be read */
  readonly doubleCharged: number | null;
  /** customers of the plan without a slot, or charged at the provider and not in our database */
  readonly lost: number;
  readonly amountMinorByCurrency: Readonly<Record<string, number>>;
  readonly seconds: number;
  readonly customersPerSecond: number;
  readonly workflowId: string;
  /** the run had completed before; nobody was charged by this command */
  readonly alreadyCompleted: boolean;
}

/** Builds the report from the database's summary and the provider's counts. */
export function reportOf(from: {
  run: RunRef;
  summary: RunSummary;
  provider: { doubleCharged: number | null; lost: number };
  seconds: number;
  /** customers that had their outcome before those seconds began */
  doneBefore?: number;
  workflowId: string;
  alreadyCompleted: boolean;
}): RunReport {
  const { run, summary, provider, seconds } = from;
  const done = settledIn(summary) - (from.doneBefore ?? 0);
  const rate = seconds === 0 ? 0 : done / seconds;
  return {
    period: run.period,
    namespace: run.namespace,
    state: summary.state,
    customers: summary.customers,
    ...summary.counts,
    doubleCharged: provider.doubleCharged,
    lost: provider.lost,
    amountMinorByCurrency: summary.chargedMinorByCurrency,
    seconds: Math.round(seconds * 100) / 100,
    customersPerSecond: Math.round(rate * 100) / 100,
    workflowId: from.workflowId,
    alreadyCompleted: from.alreadyCompleted,
  };
}

/** Customers that have their outcome, or wait for a person. */
export function settledIn(summary: RunSummary): number {
  return totalOf(summary.counts) + summary.inReview;
}

/** Customers without a final outcome: unknown, waiting for a person, or left claimed, sent or unclaimed. */
export function openIn(summary: RunSummary): number {
  return summary.customers - totalOf(summary.counts) + summary.counts.indeterminate;
}

/** The tables a run ends with: outcomes, money, and why customers were not charged. */
export function formatReport(report: RunReport, reasons: readonly ReasonCount[]): string {
  const counts = table(
    ['outcome', 'customers'],
    [...OUTCOMES.map((outcome) => [outcome, report[outcome]] as const), ['all', report.customers]],
  );
  const money = Object.entries(report.amountMinorByCurrency)
    .sort(([a], [b]) => a.localeCompare(b))
    .map(([currency, amount]) => [currency.toUpperCase(), describeAmount(amount, currency)]);
  return [
    counts,
    ...(money.length === 0 ? [] : [table(['currency', 'charged'], money)]),
    ...(reasons.length === 0 ? [] : [formatReasons(reasons)]),
    verdictLine(report),
  ].join('\n');
}

/** Why customers were not charged, with what may help. */
export function formatReasons(reasons: readonly ReasonCount[]): string {
  return table(
    ['state', 'reason', 'advice', 'customers'],
    reasons.map((row) => [row.state, row.reason, row.advice ?? '', row.customers]),
  );
}

function verdictLine(report: RunReport): string {
  const speed = report.alreadyCompleted
    ? `${report.customers} customers, completed before`
    : `${report.customers} customers, ${report.customersPerSecond}/s over ${report.seconds} s`;
  const twice = `charged twice: ${report.doubleCharged ?? 'not counted'}`;
  const lost = `lost: ${report.lost}`;
  const good = report.doubleCharged === 0 && report.lost === 0;
  const head = good ? green(`${twice} · ${lost}`) : red(`${twice} · ${lost}`);
  const open = report.indeterminate > 0 ? yellow(` · not known yet: ${report.indeterminate}`) : '';
  return `${bold(report.period)} ${report.state} · ${head}${open} · ${speed}`;
}
