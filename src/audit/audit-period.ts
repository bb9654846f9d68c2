import type { Outcome } from '../domain/charge.ts';
import type { RunRef } from '../domain/ids.ts';
import { compareCustomer } from './compare-customer.ts';
import { compareSends } from './compare-sends.ts';
import { readDatabase, readVersions, type DatabaseReading } from './database-witness.ts';
import { FindingList } from './finding-list.ts';
import type { AuditReport, Finding, FindingKind, Verdict, WitnessState } from './report.ts';
import { differingCurrencies, Sums } from './sums.ts';
import {
  reasonOf,
  type CustomerHistory,
  type OnProgress,
  type ProviderIntent,
  type ProviderWitness,
  type TemporalWitness,
} from './witnesses.ts';

export interface AuditOptions {
  readonly databaseUrl: string;
  readonly run: RunRef;
  readonly provider: ProviderWitness;
  /** null: the caller says that Temporal is not to be asked, and the verdict rests on two witnesses */
  readonly temporal: TemporalWitness | null;
  readonly onProgress?: OnProgress | undefined;
}

/** True for good or ill at any moment; all other disagreements may be a row read before its money moved. */
const TRUE_WHILE_MOVING: ReadonlySet<FindingKind> = new Set([
  'charged_twice',
  'several_payment_intents',
  'differs_from_item',
  'frozen_request_differs',
  'several_keys',
  'several_bodies',
  'plan_differs',
]);
const PROGRESS_EVERY = 500;

/**
 * Compares the period's database, provider and histories and names every row on which they disagree.
 * Reads only. A witness that cannot be heard to the end makes the verdict unknown, never pass.
 */
export async function auditPeriod(options: AuditOptions): Promise<AuditReport> {
  const audit = new Audit(options);
  const started = performance.now();
  await audit.hearDatabase(true);
  await audit.hearProvider(true);
  await audit.hearTemporal();
  await audit.recheckMoving();
  return audit.report((performance.now() - started) / 1000);
}

export interface QuickCount {
  /** null when the provider could not be read */
  readonly doubleCharged: number | null;
  readonly lost: number;
  /** why doubleCharged is null */
  readonly problem: string | null;
}

/** The two numbers that must be zero, from slots and provider alone: cheap enough for the end of every run. */
export async function quickCount(
  options: Pick<AuditOptions, 'databaseUrl' | 'run' | 'provider'>,
): Promise<QuickCount> {
  const audit = new Audit({ ...options, temporal: null });
  await audit.hearDatabase(false);
  await audit.hearProvider(false);
  await audit.hearTemporal();
  const report = audit.report(0);
  const { database, provider } = report.witnesses;
  if (database.status === 'unreadable')
    throw new Error(`the database could not be read: ${database.reason}`);
  return {
    doubleCharged: provider.status === 'read' ? report.doubleCharged : null,
    lost: report.lost,
    problem: provider.status === 'unreadable' ? provider.reason : null,
  };
}

class Audit {
  readonly #options: AuditOptions;
  readonly #findings = new FindingList();
  readonly #twice = new Set<string>();
  readonly #intents = new Map<string, ProviderIntent[]>();
  #reading: DatabaseReading | null = null;
  #whole = true;
  #database: WitnessState = { status: 'not_asked', source: 'PostgreSQL' };
  #provider: WitnessState;
  #temporal: WitnessState;
  readonly #sums = { slots: new Sums(), log: new Sums(), provider: new Sums() };

  constructor(options: AuditOptions) {
    this.#options = options;
    this.#provider = { status: 'not_asked', source: options.provider.source };
    this.#temporal = { status: 'not_asked', source: options.temporal?.source ?? 'Temporal' };
  }

  async hearDatabase(whole: boolean): Promise<void> {
    const { databaseUrl, run } = this.#options;
    const { source } = this.#database;
    this.#whole = whole;
    try {
      const reading = await readDatabase({
        databaseUrl,
        run,
        whole,
        onProgress: (at) => this.#tell(at),
      });
      this.#reading = reading;
      this.#database = { status: 'read', source, records: reading.customers.size, absent: 0 };
    } catch (error) {
      this.#database = { status: 'unreadable', source, reason: reasonOf(error) };
    }
  }

  async hearProvider(withSends: boolean): Promise<void> {
    const reading = this.#reading;
    if (reading === null) return;
    const { provider, run } = this.#options;
    const { account, livemode } = reading;
    const query = { run, account, livemode, plannedAt: reading.run?.plannedAt ?? null };
    let records = 0;
    try {
      for await (const intent of provider.intents(query)) {
        records += 1;
        this.#take(intent);
        if (records % PROGRESS_EVERY === 0)
          this.#tell({ witness: 'provider', done: records, total: null });
      }
      this.#tell({ witness: 'provider', done: records, total: records });
      if (withSends && provider.sends !== undefined) {
        for await (const found of compareSends(provider.sends(query), reading)) this.#add(found);
      }
      this.#provider = { status: 'read', source: provider.source, records, absent: 0 };
    } catch (error) {
      this.#provider = { status: 'unreadable', source: provider.source, reason: reasonOf(error) };
    }
  }

  /** Hears the histories one by one, and compares each customer as soon as all is known of it. */
  async hearTemporal(): Promise<void> {
    const reading = this.#reading;
    if (reading === null) return;
    const left = new Set([...reading.customers.keys(), ...this.#intents.keys()]);
    const sums = { histories: new Sums(), theirSlots: new Sums() };
    const { temporal, run } = this.#options;
    if (temporal !== null) {
      const total = reading.customers.size;
      let records = 0;
      let within = 0;
      try {
        for await (const history of temporal.histories(run, reading.customers.keys())) {
          records += 1;
          if (reading.customers.has(history.customerId)) within += 1;
          left.delete(history.customerId);
          this.#compare(history.customerId, history);
          addToSums(sums, history, reading);
          if (records % PROGRESS_EVERY === 0)
            this.#tell({ witness: 'temporal', done: records, total });
        }
        this.#tell({ witness: 'temporal', done: records, total });
        this.#temporal = {
          status: 'read',
          source: temporal.source,
          records,
          absent: total - within,
        };
      } catch (error) {
        this.#temporal = { status: 'unreadable', source: temporal.source, reason: reasonOf(error) };
      }
    }
    for (const customerId of left) this.#compare(customerId, null);
    this.#compareWhole(reading);
    if (this.#temporal.status === 'read') {
      this.#compareSums('histories', sums.histories, sums.theirSlots);
    }
  }

  /** A customer whose slot was written to since the snapshot is no disagreement yet. */
  async recheckMoving(): Promise<void> {
    const reading = this.#reading;
    const suspects = this.#findings
      .kept()
      .filter(({ kind, severity }) => severity === 'disagreement' && !TRUE_WHILE_MOVING.has(kind));
    if (reading === null || suspects.length === 0) return;
    const ids = suspects.flatMap(({ customerId }) => (customerId === null ? [] : [customerId]));
    const { databaseUrl, run } = this.#options;
    let now: ReadonlyMap<string, string>;
    try {
      now = await readVersions(databaseUrl, run, ids);
    } catch (error) {
      // The disagreements stand as they were read; the database was not heard to the end.
      this.#database = { status: 'unreadable', source: 'PostgreSQL', reason: reasonOf(error) };
      return;
    }
    const moved = (id: string) => now.get(id) !== reading.customers.get(id)?.slot?.version;
    const moving = new Set(ids.filter((id) => reading.customers.has(id) && moved(id)));
    if (moving.size === 0) return;
    this.#findings.soften(({ kind, customerId }) => {
      if (TRUE_WHILE_MOVING.has(kind)) return false;
      return customerId === null ? kind === 'sum_differs' : moving.has(customerId);
    });
  }

  report(seconds: number): AuditReport {
    const { run } = this.#options;
    const unknowns = this.#unknowns();
    const disagree = this.#findings.count('disagreement') > 0;
    const verdict: Verdict = disagree ? 'fail' : unknowns.length > 0 ? 'unknown' : 'pass';
    return {
      verdict,
      unknowns,
      namespace: run.namespace,
      period: run.period,
      runState: this.#reading?.run?.state ?? null,
      customers: this.#reading?.customers.size ?? 0,
      ...this.#counts(),
      doubleCharged: this.#twice.size,
      lost: this.#findings.byKind.lost ?? 0,
      amountMinorByCurrency: this.#sums.slots.toNumbers(),
      witnesses: { database: this.#database, provider: this.#provider, temporal: this.#temporal },
      findings: this.#findings.kept(),
      findingsTotal: this.#findings.total,
      findingsByKind: this.#findings.byKind,
      seconds: Math.round(seconds * 100) / 100,
    };
  }

  #take(intent: ProviderIntent): void {
    const customerId = intent.customerId ?? '(no customer in the metadata)';
    const known = this.#intents.get(customerId);
    if (known === undefined) this.#intents.set(customerId, [intent]);
    else known.push(intent);
    for (const { amountMinor } of intent.succeeded)
      this.#sums.provider.add(intent.currency, amountMinor);
  }

  #compare(customerId: string, history: CustomerHistory | null): void {
    const found = compareCustomer({
      customerId,
      planned: this.#reading?.customers.get(customerId) ?? null,
      intents: this.#intents.get(customerId) ?? [],
      history,
      runState: this.#reading?.run?.state ?? null,
      providerRead: this.#provider.status === 'read',
      whole: this.#whole,
    });
    for (const finding of found) this.#add(finding);
  }

  #add(finding: Finding): void {
    if (finding.kind === 'charged_twice' && finding.customerId !== null)
      this.#twice.add(finding.customerId);
    const early =
      finding.severity === 'disagreement' &&
      this.#isGoing() &&
      !TRUE_WHILE_MOVING.has(finding.kind);
    this.#findings.add(early ? { ...finding, severity: 'unfinished' } : finding);
  }

  #compareWhole({ run, customers, loggedOutside }: DatabaseReading): void {
    for (const { slot, currency, amountMinor, logged } of customers.values()) {
      if (slot?.state === 'charged') this.#sums.slots.add(currency, amountMinor);
      for (const entry of logged) this.#sums.log.add(entry.currency, entry.amountMinor);
    }
    if (run !== null && run.customerCount !== customers.size) {
      const message = `planned with ${run.customerCount} customers, found ${customers.size}`;
      this.#add({ ...PERIOD_WIDE, kind: 'plan_differs', message, database: message });
    }
    for (const customerId of loggedOutside) {
      const message = `the audit log has charged ${customerId}, who is not in the plan`;
      this.#add({ ...PERIOD_WIDE, kind: 'outside_plan', customerId, message, database: message });
    }
    if (this.#whole) this.#compareSums('audit log', this.#sums.log, this.#sums.slots);
    if (this.#provider.status === 'read')
      this.#compareSums('provider', this.#sums.provider, this.#sums.slots);
  }

  #compareSums(who: 'audit log' | 'provider' | 'histories', theirs: Sums, ours: Sums): void {
    for (const currency of differingCurrencies(theirs, ours)) {
      const database = `${ours.get(currency)} ${currency}`;
      const other = `${theirs.get(currency)} ${currency}`;
      this.#add({
        ...PERIOD_WIDE,
        kind: 'sum_differs',
        message: `slots add up to ${database}, the ${who} to ${other}`,
        database: who === 'audit log' ? `${database}, log ${other}` : database,
        provider: who === 'provider' ? other : '-',
        temporal: who === 'histories' ? other : '-',
      });
    }
  }

  #counts() {
    const counts: Record<Outcome, number> & { unfinished: number } = {
      charged: 0,
      declined: 0,
      indeterminate: 0,
      skipped: 0,
      blocked: 0,
      misconfigured: 0,
      unfinished: this.#findings.byKind.not_reached ?? 0,
    };
    for (const { slot } of this.#reading?.customers.values() ?? []) {
      if (slot === null) continue;
      if (slot.state === 'claimed' || slot.state === 'sent') counts.unfinished += 1;
      else counts[slot.state === 'in_review' ? 'indeterminate' : slot.state] += 1;
    }
    return counts;
  }

  #unknowns(): string[] {
    const unknowns: string[] = [];
    const { namespace, period } = this.#options.run;
    for (const [name, witness] of [
      ['the database', this.#database],
      ['the provider', this.#provider],
      ['Temporal', this.#temporal],
    ] as const) {
      if (witness.status !== 'unreadable') continue;
      unknowns.push(`${name} could not be read to its end: ${witness.reason}`);
    }
    const reading = this.#reading;
    if (reading === null) return unknowns;
    if (reading.run === null)
      unknowns.push(`${period} was never planned in the namespace ${namespace}`);
    else if (this.#isGoing()) {
      unknowns.push(`the run is not over (${reading.run.state}): audit it again when it is`);
    }
    if (this.#temporal.status === 'read' && this.#temporal.records === 0 && reading.run !== null) {
      unknowns.push(
        'Temporal has no history of this period; leave it out (--without-temporal) to go by two witnesses',
      );
    }
    const unfinished = this.#findings.count('unfinished');
    if (unfinished > 0 && !this.#isGoing())
      unknowns.push(`${unfinished} findings are not decided yet`);
    return unknowns;
  }

  #isGoing(): boolean {
    const state = this.#reading?.run?.state;
    return state !== undefined && state !== 'completed' && state !== 'stopped';
  }

  #tell(progress: Parameters<OnProgress>[0]): void {
    this.#options.onProgress?.(progress);
  }
}

const PERIOD_WIDE = {
  severity: 'disagreement',
  customerId: null,
  provider: '-',
  temporal: '-',
} as const;

/** Only customers whose whole history is there can be summed; their slots are the other side. */
function addToSums(
  sums: { histories: Sums; theirSlots: Sums },
  history: CustomerHistory,
  { customers }: DatabaseReading,
): void {
  if (history.partial) return;
  const customer = customers.get(history.customerId);
  // The run that charged may be forgotten while a later one, which found it charged, is not.
  if (history.charges.length === 0 && history.returned === 'charged') return;
  for (const { currency, amountMinor } of history.charges)
    sums.histories.add(currency, amountMinor);
  if (customer?.slot?.state === 'charged')
    sums.theirSlots.add(customer.currency, customer.amountMinor);
}
