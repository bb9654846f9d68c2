import {
  periodContaining,
  previousPeriod,
  type BillingPeriod,
  type Granularity,
} from './billing-period.ts';

export interface TickCalendar {
  readonly granularity: Granularity;
  /** IANA zone the periods are reckoned in */
  readonly zone: string;
  /** the period that begins at the tick (in advance), or the one that has just ended (in arrears) */
  readonly bills?: 'current' | 'previous';
}

/** Which period a tick with this nominal time bills. Pure: the same tick late or twice gives the same period. */
export function periodOfTick(nominalMs: number, calendar: TickCalendar): BillingPeriod {
  const current = periodContaining(nominalMs, calendar.granularity, calendar.zone);
  return calendar.bills === 'previous' ? previousPeriod(current) : current;
}
