import type { ListedCharge } from '../payments/refund-gateway.ts';
import { labelCharge, type LabelledCharge, type LabelRules, type MadeBy } from './charge-label.ts';

interface FoundCharge {
  readonly chargeId: string;
  readonly paymentIntentId: string | null;
  readonly created: number;
  readonly madeBy: MadeBy;
  readonly currency: string;
  readonly amountMinor: number;
  readonly refundedMinor: number;
  /** what is left of it: captured less given back */
  readonly netMinor: number;
}

/** More than one success for what is due once. `kept` pays for it, `extras` are to be given back. */
export interface Duplicate {
  readonly kind: 'certain' | 'likely';
  readonly why: string;
  readonly namespace: string | null;
  readonly period: string;
  readonly customerId: string | null;
  readonly stripeCustomerId: string | null;
  readonly kept: FoundCharge;
  readonly extras: readonly FoundCharge[];
}

export interface Found {
  readonly duplicates: readonly Duplicate[];
  /** successes that were looked at */
  readonly charges: number;
  /** second successes whose money has gone back already, with the sums */
  readonly settled: {
    readonly refundedMinorByCurrency: Readonly<Record<string, number>>;
    readonly refunded: number;
    readonly disputed: number;
  };
}

/** True for a charge that a slot counts on: it is always the one that is kept. */
export type CountsOn = (charge: ListedCharge) => boolean;

/** Collects charges page by page; what took no money is left out, so that memory holds successes only. */
export class ChargeCollection {
  readonly #rules: LabelRules;
  readonly #labelled = new Map<string, LabelledCharge>();

  constructor(rules: LabelRules) {
    this.#rules = rules;
  }

  /** A charge given twice (a list that moved while it was read) counts once. */
  add(charge: ListedCharge): void {
    const labelled = labelCharge(charge, this.#rules);
    if (labelled !== null) this.#labelled.set(charge.id, labelled);
  }

  all(): readonly LabelledCharge[] {
    return [...this.#labelled.values()].sort(byAge);
  }
}

/**
 * Two successes of one customer and one period. `certain`: both name the same slot in their metadata.
 * `likely`: same Stripe customer, amount, currency and period, and at least one of them does not say
 * what it was for. Two slots (namespaces, periods, customers of ours) are never duplicates. Pure.
 */
export function findDuplicates(all: readonly LabelledCharge[], countsOn: CountsOn): Found {
  const duplicates: Duplicate[] = [];
  const settled = newTally();
  const extra = new Set<string>();
  // One pass gives back nothing that it keeps; what is left over is found by the next.
  const stays = new Set<string>();
  for (const group of groupsBy(all, slotKeys)) {
    tally(settled, group);
    const live = group.filter(isLive);
    const kept = live.find(({ charge }) => countsOn(charge)) ?? live[0];
    if (kept === undefined) continue;
    const extras = live.filter((one) => one !== kept && !countsOn(one.charge));
    if (extras.length === 0) continue;
    for (const one of extras) extra.add(one.charge.id);
    stays.add(kept.charge.id);
    duplicates.push(duplicateOf('certain', { kept, extras }));
  }
  const rest = all.filter(({ charge }) => !extra.has(charge.id));
  for (const group of groupsBy(rest, likelyKeys)) {
    const { anchors, weaker } = split(group.filter(isLive));
    tally(settled, split(group).weaker);
    const kept = anchors.find(({ charge }) => countsOn(charge)) ?? anchors[0];
    const extras = weaker.filter(
      ({ charge }) => !countsOn(charge) && !extra.has(charge.id) && !stays.has(charge.id),
    );
    if (kept === undefined || extras.length === 0) continue;
    for (const one of extras) extra.add(one.charge.id);
    duplicates.push(duplicateOf('likely', { kept, extras }));
  }
  const { refunded, disputed, refundedMinorByCurrency } = settled;
  return {
    duplicates,
    charges: all.length,
    settled: { refunded, disputed, refundedMinorByCurrency },
  };
}

const RANK: Readonly<Record<MadeBy, number>> = { chargeonce: 2, labelled: 1, unlabelled: 0 };

/**
 * Those that say best what they were for stay, each for its own slot; the others are extra beside them.
 * Where none says anything, the earliest stays.
 */
function split(group: readonly LabelledCharge[]) {
  const top = Math.max(...group.map(({ madeBy }) => RANK[madeBy]));
  const anchors = group.filter(({ madeBy }) => RANK[madeBy] === top);
  const stay = top === 0 ? anchors.slice(0, 1) : anchors;
  return { anchors: stay, weaker: group.filter((one) => !stay.includes(one)) };
}

function isLive({ netMinor }: LabelledCharge): boolean {
  return netMinor > 0;
}

function slotKeys({ slot }: LabelledCharge): readonly string[] {
  return slot === null ? [] : [JSON.stringify([slot.namespace, slot.period, slot.customerId])];
}

function likelyKeys({ charge, periods }: LabelledCharge): readonly string[] {
  // A charge without a customer says nothing about whom it would double.
  if (charge.customer === null) return [];
  const { customer, currency, capturedMinor } = charge;
  return periods.map((period) => JSON.stringify([customer, currency, capturedMinor, period]));
}

/** Groups of two and more, in the order of their first charge. */
function groupsBy(
  all: readonly LabelledCharge[],
  keysOf: (one: LabelledCharge) => readonly string[],
): readonly (readonly LabelledCharge[])[] {
  const groups = new Map<string, LabelledCharge[]>();
  for (const one of all) {
    for (const key of keysOf(one)) {
      const group = groups.get(key);
      if (group === undefined) groups.set(key, [one]);
      else group.push(one);
    }
  }
  return [...groups.values()].filter((group) => group.length > 1);
}

function byAge(a: LabelledCharge, b: LabelledCharge): number {
  return a.charge.created - b.charge.created || (a.charge.id < b.charge.id ? -1 : 1);
}

function duplicateOf(
  kind: Duplicate['kind'],
  { kept, extras }: { kept: LabelledCharge; extras: readonly LabelledCharge[] },
): Duplicate {
  const { customer } = kept.charge;
  const period = kept.slot?.period ?? extras[0]?.periods[0] ?? '';
  const slot = kept.slot;
  const why =
    kind === 'certain' && slot !== null
      ? `same slot in the metadata: ${slot.namespace} ${slot.period} ${slot.customerId}`
      : `same customer ${customer ?? ''}, amount, currency and period ${period}; ` +
        'the metadata of the extra one does not name that slot';
  return {
    kind,
    why,
    namespace: slot?.namespace ?? null,
    period,
    customerId: slot?.customerId ?? null,
    stripeCustomerId: customer,
    kept: foundOf(kept),
    extras: extras.map(foundOf),
  };
}

function foundOf({ charge, madeBy, netMinor }: LabelledCharge): FoundCharge {
  return {
    chargeId: charge.id,
    paymentIntentId: charge.paymentIntentId,
    created: charge.created,
    madeBy,
    currency: charge.currency,
    amountMinor: charge.capturedMinor,
    refundedMinor: charge.refundedMinor,
    netMinor,
  };
}

interface Tally {
  readonly seen: Set<string>;
  refundedMinorByCurrency: Record<string, number>;
  refunded: number;
  disputed: number;
}

function newTally(): Tally {
  return { seen: new Set(), refundedMinorByCurrency: {}, refunded: 0, disputed: 0 };
}

function tally(into: Tally, group: readonly LabelledCharge[]): void {
  for (const { charge } of group) {
    if (into.seen.has(charge.id)) continue;
    into.seen.add(charge.id);
    if (charge.disputed) into.disputed += 1;
    if (charge.refundedMinor === 0) continue;
    into.refunded += 1;
    const sums = into.refundedMinorByCurrency;
    sums[charge.currency] = (sums[charge.currency] ?? 0) + charge.refundedMinor;
  }
}
