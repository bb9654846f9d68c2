import { performance } from 'node:perf_hooks';
import type { Journal } from './journal.ts';

/** One physical request. `status` 0 means that no reply was sent. */
export interface RequestEntry {
  readonly seq: number;
  readonly at: string;
  readonly account: string | null;
  readonly livemode: boolean | null;
  readonly endpoint: string;
  readonly method: string;
  readonly path: string;
  readonly idempotencyKey: string | null;
  readonly attemptId: string | null;
  /** null: the connection ended before the body was read */
  readonly bodyHash: string | null;
  readonly requestId: string;
  readonly status: number;
  readonly durationMs: number;
  readonly replayed: boolean;
  readonly executed: boolean;
  readonly fault: string | null;
  readonly faultKind: string | null;
}

/** Numbers since the start (or the last reset) of this process. */
export interface RequestCounters {
  readonly requests: number;
  readonly byEndpoint: Readonly<Record<string, number>>;
  readonly byStatus: Readonly<Record<string, number>>;
  readonly byEndpointAndStatus: Readonly<Record<string, number>>;
  readonly maxPerSecond: Readonly<Record<string, number>>;
  readonly rateLimited: number;
  readonly replayed: number;
  readonly executed: number;
}

const TRIM_EVERY = 10_000;

/** Every physical request, bounded: a second witness for who sent what, and how fast. */
export class RequestLog {
  readonly #limit: number;
  readonly #journal: Journal | undefined;
  readonly #windows = new Map<string, Window>();
  #entries: RequestEntry[] = [];
  #seq = 0;
  #byEndpoint = new Map<string, number>();
  #byStatus = new Map<string, number>();
  #byBoth = new Map<string, number>();
  #replayed = 0;
  #executed = 0;

  constructor(limit: number, journal: Journal | undefined) {
    this.#limit = limit;
    this.#journal = journal;
    for (const row of journal?.rows('request') ?? []) {
      const entry: RequestEntry = JSON.parse(row.json);
      this.#seq = entry.seq;
      this.#keep(entry);
    }
  }

  /** Counts an arrival in the endpoint's sliding second. */
  arrived(endpoint: string): void {
    const window = this.#windows.get(endpoint) ?? new Window();
    this.#windows.set(endpoint, window);
    window.add(performance.now());
  }

  add(entry: Omit<RequestEntry, 'seq'>): void {
    this.#seq += 1;
    const full = { seq: this.#seq, ...entry };
    this.#keep(full);
    if (this.#journal !== undefined) {
      const json = JSON.stringify(full);
      this.#journal.write([{ kind: 'request', tenant: '', id: String(full.seq), json }]);
      if (this.#seq % TRIM_EVERY === 0) this.#journal.trim('request', this.#limit);
    }
    count(this.#byEndpoint, entry.endpoint);
    count(this.#byStatus, String(entry.status));
    count(this.#byBoth, `${entry.endpoint} ${entry.status}`);
    if (entry.replayed) this.#replayed += 1;
    if (entry.executed) this.#executed += 1;
  }

  /** Entries in order of completion, after `afterSeq`. */
  entries(afterSeq = 0, limit = Infinity): RequestEntry[] {
    const all = this.#entries.slice(-this.#limit);
    const first = all.findIndex((entry) => entry.seq > afterSeq);
    return first === -1 ? [] : all.slice(first, first + limit);
  }

  counters(): RequestCounters {
    return {
      requests: [...this.#byEndpoint.values()].reduce((sum, one) => sum + one, 0),
      byEndpoint: Object.fromEntries(this.#byEndpoint),
      byStatus: Object.fromEntries(this.#byStatus),
      byEndpointAndStatus: Object.fromEntries(this.#byBoth),
      maxPerSecond: Object.fromEntries(
        [...this.#windows].map(([name, window]) => [name, window.max]),
      ),
      rateLimited: this.#byStatus.get('429') ?? 0,
      replayed: this.#replayed,
      executed: this.#executed,
    };
  }

  clear(): void {
    this.#entries = [];
    this.#seq = 0;
    this.#replayed = 0;
    this.#executed = 0;
    this.#windows.clear();
    this.#byEndpoint = new Map();
    this.#byStatus = new Map();
    this.#byBoth = new Map();
  }

  #keep(entry: RequestEntry): void {
    this.#entries.push(entry);
    // Cut in halves, not one by one: shifting a long array at each request would cost more than the request.
    if (this.#entries.length >= 2 * this.#limit) this.#entries = this.#entries.slice(-this.#limit);
  }
}

function count(map: Map<string, number>, name: string): void {
  map.set(name, (map.get(name) ?? 0) + 1);
}

/** The most arrivals within any one second. */
class Window {
  max = 0;
  #times: number[] = [];
  #first = 0;

  add(nowMs: number): void {
    this.#times.push(nowMs);
    while ((this.#times[this.#first] ?? nowMs) <= nowMs - 1000) this.#first += 1;
    this.max = Math.max(this.max, this.#times.length - this.#first);
    if (this.#first > 4096) {
      this.#times = this.#times.slice(this.#first);
      this.#first = 0;
    }
  }
}
