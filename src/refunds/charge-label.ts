import {
  parseBillingPeriod,
  periodContaining,
  type BillingPeriod,
  type Granularity,
} from '../domain/billing-period.ts';
import { DEFAULT_NAMESPACE } from '../domain/namespace.ts';
import { METADATA } from '../domain/metadata.ts';
import type { ListedCharge } from '../payments/refund-gateway.ts';

/** How charges are read: whose metadata, which periods, in which zone. */
export interface LabelRules {
  readonly zone: string;
  readonly granularity: Granularity;
  /** metadata names that a job before us wrote, if it wrote any */
  readonly periodKey?: string | undefined;
  readonly customerKey?: string | undefined;
}

/** Who made a charge, as far as its metadata tells: we, a job that labels its charges, or nobody says. */
export type MadeBy = 'chargeonce' | 'labelled' | 'unlabelled';

/** A successful charge with what it was for. */
export interface LabelledCharge {
  readonly charge: ListedCharge;
  readonly madeBy: MadeBy;
  /** the slot by metadata; null for one that does not name its customer and its period */
  readonly slot: {
    readonly namespace: string;
    readonly period: BillingPeriod;
    readonly customerId: string;
  } | null;
  /** the periods it may have been for: its label's, else the one it was made in; ours count for both */
  readonly periods: readonly BillingPeriod[];
  /** captured and not given back; nothing where the bank has taken it */
  readonly netMinor: number;
}

/** Reads a charge's label; null for a charge that took no money. Pure. */
export function labelCharge(charge: ListedCharge, rules: LabelRules): LabelledCharge | null {
  if (charge.status !== 'succeeded' || charge.capturedMinor === 0) return null;
  const { metadata } = charge;
  const netMinor = charge.disputed ? 0 : charge.capturedMinor - charge.refundedMinor;
  const made = periodContaining(charge.created * 1000, rules.granularity, rules.zone);
  const ours = metadata[METADATA.customer];
  const ourPeriod = periodOf(metadata[METADATA.period]);
  if (ours !== undefined && ourPeriod !== null) {
    const namespace = metadata[METADATA.namespace] ?? DEFAULT_NAMESPACE;
    const slot = { namespace, period: ourPeriod, customerId: ours };
    const periods = made === ourPeriod ? [made] : [ourPeriod, made];
    return { charge, madeBy: 'chargeonce', slot, periods, netMinor };
  }
  const customerId = rules.customerKey === undefined ? undefined : metadata[rules.customerKey];
  const period = rules.periodKey === undefined ? null : periodOf(metadata[rules.periodKey]);
  if (customerId !== undefined && customerId !== '' && period !== null) {
    const slot = { namespace: DEFAULT_NAMESPACE, period, customerId };
    return { charge, madeBy: 'labelled', slot, periods: [period], netMinor };
  }
  return { charge, madeBy: 'unlabelled', slot: null, periods: [period ?? made], netMinor };
}

function periodOf(text: string | undefined): BillingPeriod | null {
  if (text === undefined) return null;
  const parsed = parseBillingPeriod(text.trim());
  return parsed.ok ? parsed.period : null;
}
