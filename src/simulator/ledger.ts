import type { ChargeRecord, IntentRecord } from './records.ts';
import type { Store, Tenant } from './store.ts';

/** Metadata names by which the auditor groups; the simulator gives them no other meaning. */
const NAMESPACE = 'chargeonce_namespace';
const CUSTOMER = 'chargeonce_customer';
const PERIOD = 'chargeonce_period';

export interface LedgerFilter {
  readonly account?: string | undefined;
  readonly livemode?: boolean | undefined;
  readonly namespace?: string | undefined;
  readonly period?: string | undefined;
  /** Our customer id in the metadata, or the `cus_…` of the intent. */
  readonly customer?: string | undefined;
}

interface LedgerCharge {
  readonly id: string;
  readonly status: ChargeRecord['status'];
  readonly amount: number;
  readonly amountRefunded: number;
  readonly declineCode: string | null;
  readonly createdAt: number;
}

/** One PaymentIntent with everything that was charged on it. */
export interface LedgerEntry {
  readonly paymentIntent: string;
  /** The latest charge. */
  readonly charge: string | null;
  readonly charges: readonly LedgerCharge[];
  readonly account: string;
  readonly livemode: boolean;
  readonly amount: number;
  readonly currency: string;
  readonly status: IntentRecord['status'];
  readonly customer: string | null;
  readonly metadata: Readonly<Record<string, string>>;
  readonly createdAt: number;
  readonly idempotencyKeys: readonly string[];
}

/** All intents of one (account, mode, namespace, customer, period); never by idempotency key. */
export interface LedgerGroup {
  readonly account: string;
  readonly livemode: boolean;
  readonly namespace: string | null;
  readonly customer: string;
  readonly period: string | null;
  /** Successful charges: 2 or more is a double charge. */
  succeeded: number;
  pending: number;
  failed: number;
  readonly succeededMinorByCurrency: Record<string, number>;
  readonly paymentIntents: string[];
}

/** Every intent that passes the filter, oldest first per account, one at a time; `after` skips up to that intent. */
export function* ledgerEntries(
  store: Store,
  filter: LedgerFilter = {},
  after: string | null = null,
): Generator<LedgerEntry> {
  let reached = after === null;
  for (const tenant of store.tenants()) {
    const { intents } = tenant;
    const isPlace = !reached && after !== null && intents.get(after) !== undefined;
    if (!reached && !isPlace) continue;
    reached = true;
    if (filter.account !== undefined && filter.account !== tenant.account) continue;
    if (filter.livemode !== undefined && filter.livemode !== tenant.livemode) continue;
    for (const intent of isPlace ? intents.after(after) : intents.values()) {
      if (passes(intent, filter)) yield toEntry(tenant, intent);
    }
  }
}

/** The groups of those intents that carry our metadata. */
export function ledgerGroups(entries: Iterable<LedgerEntry>): LedgerGroup[] {
  const groups = new Map<string, LedgerGroup>();
  for (const entry of entries) {
    const { metadata, account, livemode } = entry;
    const customer = metadata[CUSTOMER];
    if (customer === undefined) continue;
    const namespace = metadata[NAMESPACE] ?? null;
    const period = metadata[PERIOD] ?? null;
    const id = JSON.stringify([account, livemode, namespace, customer, period]);
    const group = groups.get(id) ?? {
      account,
      livemode,
      namespace,
      customer,
      period,
      succeeded: 0,
      pending: 0,
      failed: 0,
      succeededMinorByCurrency: {},
      paymentIntents: [],
    };
    groups.set(id, group);
    addToGroup(group, entry);
  }
  return [...groups.values()];
}

function addToGroup(group: LedgerGroup, entry: LedgerEntry): void {
  group.paymentIntents.push(entry.paymentIntent);
  for (const charge of entry.charges) {
    group[charge.status] += 1;
    if (charge.status !== 'succeeded') continue;
    const sums = group.succeededMinorByCurrency;
    sums[entry.currency] = (sums[entry.currency] ?? 0) + charge.amount;
  }
}

function passes(intent: IntentRecord, filter: LedgerFilter): boolean {
  const { metadata } = intent;
  return (
    (filter.namespace === undefined || metadata[NAMESPACE] === filter.namespace) &&
    (filter.period === undefined || metadata[PERIOD] === filter.period) &&
    (filter.customer === undefined ||
      metadata[CUSTOMER] === filter.customer ||
      intent.customer === filter.customer)
  );
}

function toEntry(tenant: Tenant, intent: IntentRecord): LedgerEntry {
  return {
    paymentIntent: intent.id,
    charge: intent.latestCharge,
    charges: tenant.charges.withIndex(intent.id).map((charge) => ({
      id: charge.id,
      status: charge.status,
      amount: charge.amount,
      amountRefunded: charge.amountRefunded,
      declineCode: charge.decline?.declineCode ?? null,
      createdAt: charge.created,
    })),
    account: tenant.account,
    livemode: tenant.livemode,
    amount: intent.amount,
    currency: intent.currency,
    status: intent.status,
    customer: intent.customer,
    metadata: intent.metadata,
    createdAt: intent.created,
    idempotencyKeys: intent.keys,
  };
}
