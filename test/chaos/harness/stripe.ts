import { isObject, listOf, readPage } from '../../../src/audit/read-page.ts';
import type {
  FaultPlan,
  LedgerEntry,
  LedgerGroup,
  RequestEntry,
} from '../../../src/simulator/index.ts';
import type { WebhookOptions } from '../../../src/simulator/index.ts';

/** Delivering thousands of events takes longer than all the rest. */
const TIMEOUT_MS = 300_000;
const PAGE = 5_000;

/** The provider's control port. The simulator is the referee: it is a process of its own and is never killed. */
export class StripeControl {
  readonly url: string;

  constructor(url: string) {
    this.url = url;
  }

  async setFaults(plan: FaultPlan | null): Promise<void> {
    await this.#post('faults', plan ?? {});
  }

  async setWebhook(options: WebhookOptions | null): Promise<void> {
    await this.#post('webhooks', options ?? {});
  }

  /** Sends every event of these types that nobody has accepted, twice, in any order; answers how many those were. */
  async redeliver(types: readonly string[], seed: number): Promise<number> {
    const how = { types, order: 'shuffle', seed, copies: 2 };
    const answer = await this.#post('webhooks/deliver', how);
    return new Set(deliveriesIn(answer).map(({ event }) => event)).size;
  }

  /** How often an event was accepted that had been accepted before. */
  async duplicates(): Promise<number> {
    const deliveries = deliveriesIn(await readPage(new URL('/_sim/webhooks', this.url), READER));
    const accepted = deliveries.filter(({ status }) => status >= 200 && status < 300);
    return accepted.length - new Set(accepted.map(({ event }) => event)).size;
  }

  /** Time passes at the provider: what is due settles, keys that are old enough are forgotten. */
  async advanceClock(ms: number): Promise<void> {
    await this.#post('clock', { advanceMs: ms });
  }

  /** How often each kind of fault took effect since the plan was set. */
  async faultsFired(): Promise<Map<string, number>> {
    const page = await readPage(new URL('/_sim/counters', this.url), READER);
    const fired = new Map<string, number>();
    for (const rule of listOf(page['faults'], 'faults')) {
      const kind = String(rule['kind']);
      fired.set(kind, (fired.get(kind) ?? 0) + Number(rule['fired']));
    }
    return fired;
  }

  /** Every physical request, to the end of the log. */
  requests(): Promise<RequestEntry[]> {
    return this.#pages(
      'requests',
      'requests',
      (value): value is RequestEntry & Row => isObject(value) && 'seq' in value,
    );
  }

  /** Every PaymentIntent with its charges, to the end of the ledger. */
  ledger(): Promise<LedgerEntry[]> {
    return this.#pages(
      'ledger',
      'entries',
      (value): value is LedgerEntry & Row => isObject(value) && 'paymentIntent' in value,
    );
  }

  /** Charges by (namespace, customer, period), which the simulator groups by metadata. */
  async groups(): Promise<LedgerGroup[]> {
    const page = await readPage(new URL('/_sim/ledger?entries=0', this.url), READER);
    return listOf(page['groups'], 'groups').filter(
      (value): value is LedgerGroup & Row => 'succeeded' in value && 'customer' in value,
    );
  }

  async #pages<T>(what: string, list: string, is: (value: Row) => value is T & Row): Promise<T[]> {
    const url = new URL(`/_sim/${what}`, this.url);
    url.searchParams.set('limit', String(PAGE));
    const all: T[] = [];
    for (;;) {
      const page = await readPage(url, READER);
      const rows = listOf(page[list], list);
      const known = rows.filter((row) => is(row));
      if (known.length !== rows.length)
        throw new Error(`the simulator's ${what} are not as expected`);
      all.push(...known);
      if (page['has_more'] !== true) return all;
      url.searchParams.set('after', String(page['next']));
    }
  }

  async #post(what: string, body: object): Promise<unknown> {
    const response = await fetch(new URL(`/_sim/${what}`, this.url), {
      method: 'POST',
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`the simulator refused ${what}: ${text}`);
    return JSON.parse(text);
  }
}

type Row = Record<string, unknown>;
const READER = { headers: {}, pace: 1 };

function deliveriesIn(answer: unknown): { event: string; status: number }[] {
  if (!isObject(answer)) return [];
  return listOf(answer['deliveries'], 'deliveries').map(({ event, status }) => ({
    event: String(event),
    status: Number(status ?? 0),
  }));
}
