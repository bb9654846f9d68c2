import type { VirtualClock } from './clock.ts';
import { Collection } from './collection.ts';
import { newId } from './ids.ts';
import type { Journal, JournalRow } from './journal.ts';
import type {
  ChargeRecord,
  CustomerRecord,
  EventRecord,
  IntentRecord,
  Origin,
  RefundRecord,
  Snapshot,
} from './records.ts';

/** One account in one mode. Tenants share nothing. */
export class Tenant {
  readonly account: string;
  readonly livemode: boolean;
  readonly id: string;
  readonly intents = new Collection<IntentRecord>((intent) => [intent.customer]);
  readonly charges = new Collection<ChargeRecord>((charge) => [charge.customer, charge.intent]);
  readonly refunds = new Collection<RefundRecord>((refund) => [refund.charge, refund.intent]);
  readonly customers = new Collection<CustomerRecord>((customer) => [customer.email]);
  readonly events = new Collection<EventRecord>((event) => [event.type]);

  constructor(account: string, livemode: boolean) {
    this.account = account;
    this.livemode = livemode;
    this.id = tenantId(account, livemode);
  }
}

function tenantId(account: string, livemode: boolean): string {
  return `${account}/${livemode ? 'live' : 'test'}`;
}

export interface StoredEvent {
  readonly tenant: Tenant;
  readonly event: EventRecord;
}

/**
 * All objects of all tenants. Changes are visible at once and become durable together at `commit`, which the pipeline
 * calls once per request, before the reply.
 */
export class Store {
  readonly #tenants = new Map<string, Tenant>();
  readonly #clock: VirtualClock;
  readonly #journal: Journal | undefined;
  #rows: JournalRow[] = [];
  #events: StoredEvent[] = [];
  #intentListener: (tenant: Tenant, intent: IntentRecord) => void = () => undefined;

  constructor(clock: VirtualClock, journal: Journal | undefined) {
    this.#clock = clock;
    this.#journal = journal;
    if (journal !== undefined) this.#load(journal);
  }

  tenant(account: string, livemode: boolean): Tenant {
    const id = tenantId(account, livemode);
    const known = this.#tenants.get(id);
    if (known !== undefined) return known;
    const tenant = new Tenant(account, livemode);
    this.#tenants.set(id, tenant);
    return tenant;
  }

  tenants(): Tenant[] {
    return [...this.#tenants.values()];
  }

  /** Calls the listener for every intent, those already there included. */
  onIntent(listener: (tenant: Tenant, intent: IntentRecord) => void): void {
    this.#intentListener = listener;
    for (const tenant of this.tenants()) {
      for (const intent of tenant.intents.values()) listener(tenant, intent);
    }
  }

  /** Saves an object and, when a type is given, the event that tells of it. */
  save(tenant: Tenant, snapshot: Snapshot, news?: { type: string; origin: Origin }): void {
    putSnapshot(tenant, snapshot);
    this.#persist(snapshot.of, tenant, snapshot.record);
    if (snapshot.of === 'payment_intent') this.#intentListener(tenant, snapshot.record);
    if (news !== undefined) this.#announce(tenant, snapshot, news);
  }

  markDelivered({ tenant, event }: StoredEvent): void {
    const delivered = { ...event, delivered: true };
    tenant.events.put(delivered);
    this.#persist('event', tenant, delivered);
    this.commit();
  }

  /** Adds a row of another kind (a saved key, the clock) to the transaction of this request. */
  persist(row: JournalRow): void {
    if (this.#journal !== undefined) this.#rows.push(row);
  }

  /** Makes this request's changes durable and hands out its events. */
  commit(): StoredEvent[] {
    const rows = this.#rows;
    const events = this.#events;
    this.#rows = [];
    this.#events = [];
    this.#journal?.write(rows);
    return events;
  }

  clear(): void {
    this.#tenants.clear();
    this.#rows = [];
    this.#events = [];
  }

  #announce(tenant: Tenant, object: Snapshot, news: { type: string; origin: Origin }): void {
    const event: EventRecord = {
      id: newId('evt'),
      created: this.#clock.nowSeconds(),
      type: news.type,
      object,
      origin: news.origin,
      delivered: false,
    };
    tenant.events.put(event);
    this.#persist('event', tenant, event);
    this.#events.push({ tenant, event });
  }

  #persist(kind: string, tenant: Tenant, record: { readonly id: string }): void {
    // A reset may come while a slow request or delivery is under way: what it does then concerns no one.
    if (this.#journal === undefined || this.#tenants.get(tenant.id) !== tenant) return;
    this.#rows.push({ kind, tenant: tenant.id, id: record.id, json: JSON.stringify(record) });
  }

  #load(journal: Journal): void {
    for (const kind of ['customer', 'payment_intent', 'charge', 'refund', 'event'] as const) {
      for (const row of journal.rows(kind)) {
        const [account = '', mode] = row.tenant.split('/');
        const tenant = this.tenant(account, mode === 'live');
        loadRecord(tenant, kind, row.json);
      }
    }
  }
}

function putSnapshot(tenant: Tenant, snapshot: Snapshot): void {
  switch (snapshot.of) {
    case 'payment_intent':
      tenant.intents.put(snapshot.record);
      break;
    case 'charge':
      tenant.charges.put(snapshot.record);
      break;
    case 'refund':
      tenant.refunds.put(snapshot.record);
      break;
    case 'customer':
      tenant.customers.put(snapshot.record);
      break;
  }
}

function loadRecord(tenant: Tenant, kind: Snapshot['of'] | 'event', json: string): void {
  // Written by this class alone, so the shape is known.
  const record = JSON.parse(json);
  switch (kind) {
    case 'payment_intent':
      tenant.intents.put(record);
      break;
    case 'charge':
      tenant.charges.put(record);
      break;
    case 'refund':
      tenant.refunds.put(record);
      break;
    case 'customer':
      tenant.customers.put(record);
      break;
    case 'event':
      tenant.events.put(record);
      break;
  }
}
