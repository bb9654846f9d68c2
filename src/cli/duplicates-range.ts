import {
  parseBillingPeriod,
  periodBounds,
  periodContaining,
  previousPeriod,
  type BillingPeriod,
  type Granularity,
} from '../domain/billing-period.ts';
import { CommandError, EXIT } from './exit-codes.ts';

export interface DuplicatesRange {
  readonly fromMs: number;
  readonly toMs: number;
}

/**
 * The time whose charges are looked at. Without bounds: the period before and the one under way. A bound
 * is a day or a period; `--to` includes it.
 */
export function duplicatesRange(asked: {
  readonly from?: string | undefined;
  readonly to?: string | undefined;
  readonly granularity: Granularity;
  readonly zone: string;
  readonly nowMs: number;
}): DuplicatesRange {
  const { granularity, zone, nowMs } = asked;
  const current = periodContaining(nowMs, granularity, zone);
  const from = asked.from === undefined ? previousPeriod(current) : boundOf('--from', asked.from);
  const to = asked.to === undefined ? current : boundOf('--to', asked.to);
  const fromMs = periodBounds(from, zone).startMs;
  const toMs = periodBounds(to, zone).endMs;
  if (fromMs >= toMs) throw new CommandError(EXIT.usage, `--from ${from} is after --to ${to}`);
  return { fromMs, toMs };
}

function boundOf(flag: string, text: string): BillingPeriod {
  const parsed = parseBillingPeriod(text);
  if (parsed.ok) return parsed.period;
  throw new CommandError(
    EXIT.usage,
    `${flag}: ${JSON.stringify(text)} is no date: write a day (2026-11-29), a month (2026-11), a week or a year`,
  );
}
