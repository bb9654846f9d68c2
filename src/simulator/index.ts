import { once } from 'node:events';
import { Agenda } from './agenda.ts';
import { VirtualClock } from './clock.ts';
import { Control, ledgerOf } from './control.ts';
import { Faults } from './faults.ts';
import type { FaultCount } from './faults.ts';
import { IdempotencyStore, MIN_RETENTION_MS } from './idempotency.ts';
import { Journal } from './journal.ts';
import type { LedgerEntry, LedgerFilter, LedgerGroup } from './ledger.ts';
import type { FaultPlan, SimulatorOptions, WebhookOptions } from './options.ts';
import { API_VERSION, Pipeline } from './pipeline.ts';
import { DEFAULT_ACCOUNT_RATE, DEFAULT_ENDPOINT_RATE, RateLimiter } from './rate-limit.ts';
import { RequestLog } from './request-log.ts';
import type { RequestCounters, RequestEntry } from './request-log.ts';
import { createSimulatorServer } from './server.ts';
import { Store } from './store.ts';
import { WebhookSender } from './webhooks.ts';
import type { Delivery, DeliverOptions } from './webhooks.ts';

export type { FaultPlan, FaultRule, SimulatorOptions, WebhookOptions } from './options.ts';
export type { LedgerEntry, LedgerGroup } from './ledger.ts';
export type { RequestEntry } from './request-log.ts';

/** Everything countable about the simulator. */
interface SimulatorCounters extends RequestCounters {
  readonly faults: readonly FaultCount[];
}

/** A running simulator and, for tests in the same process, its insides. */
export interface Simulator {
  readonly url: string;
  readonly port: number;
  close(): Promise<void>;
  ledger(filter?: LedgerFilter): { entries: LedgerEntry[]; groups: LedgerGroup[] };
  /** Physical requests in order of completion, after this `seq`. */
  requests(afterSeq?: number): RequestEntry[];
  counters(): SimulatorCounters;
  /** Replaces the plan; undefined ends all faults. Counters and luck start anew. */
  setFaults(plan: FaultPlan | undefined): void;
  /** Moves the virtual clock, settles what is due and forgets keys that are old enough. */
  advanceClock(ms: number): void;
  setWebhook(options: WebhookOptions | undefined): void;
  deliver(how?: DeliverOptions): Promise<Delivery[]>;
  /** As if just started with the same options and no state. */
  reset(): void;
}

// A timer may be late by this much; due steps are also taken at every request.
const MAX_TIMER_MS = 60_000;
const DEFAULT_LOG_SIZE = 200_000;
const DEFAULT_SEARCH_LAG_MS = 60_000;

/** Starts a Stripe simulator on its own port. docs/simulator.md says what it reproduces. */
export async function startSimulator(options: SimulatorOptions = {}): Promise<Simulator> {
  const core = new Core(options);
  const host = options.host ?? '127.0.0.1';
  const { server } = core;
  try {
    server.listen(options.port ?? 0, host);
    await once(server, 'listening');
  } catch (error) {
    core.stop();
    throw error;
  }
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no TCP port was opened');
  const { port } = address;
  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${port}`,
    port,
    close: async () => {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
      core.stop();
    },
    ledger: (filter) => ledgerOf(core.store, filter),
    requests: (afterSeq) => core.log.entries(afterSeq),
    counters: () => core.counters(),
    setFaults: (plan) => core.faults.set(plan),
    advanceClock: (ms) => core.advanceClock(ms),
    setWebhook: (webhook) => core.setWebhook(webhook),
    deliver: (how = {}) => core.webhooks.deliver(how),
    reset: () => core.reset(),
  };
}

/** All parts, wired. */
class Core {
  readonly #options: SimulatorOptions;
  readonly #journal: Journal | undefined;
  readonly #clock: VirtualClock;
  readonly #agenda: Agenda;
  readonly #keys: IdempotencyStore;
  readonly #limiter: RateLimiter;
  #timer: NodeJS.Timeout | undefined;
  #timerAtMs = Infinity;
  readonly store: Store;
  readonly log: RequestLog;
  readonly faults: Faults;
  readonly webhooks: WebhookSender;
  readonly server: ReturnType<typeof createSimulatorServer>;

  constructor(options: SimulatorOptions) {
    this.#options = options;
    this.faults = new Faults(options.faults);
    this.#limiter = new RateLimiter(limitsOf(options));
    const journal = options.stateDir === undefined ? undefined : new Journal(options.stateDir);
    this.#journal = journal;
    this.#clock = new VirtualClock(Number(journal?.read('clock', '', 'offsetMs') ?? 0));
    this.store = new Store(this.#clock, journal);
    this.#agenda = new Agenda(this.store, this.#clock, API_VERSION);
    const retentionMs = options.idempotencyRetentionMs ?? MIN_RETENTION_MS;
    this.#keys = new IdempotencyStore(this.store, journal, { clock: this.#clock, retentionMs });
    this.log = new RequestLog(options.requestLogSize ?? DEFAULT_LOG_SIZE, journal);
    this.webhooks = new WebhookSender(this.store, options.webhook ?? savedWebhook(journal));
    this.server = this.#createServer();
    this.webhooks.resume();
    this.#tick();
  }

  counters(): SimulatorCounters {
    return { ...this.log.counters(), faults: this.faults.counts() };
  }

  advanceClock(ms: number): void {
    this.#clock.advance(ms);
    const json = String(this.#clock.offsetMs);
    this.store.persist({ kind: 'clock', tenant: '', id: 'offsetMs', json });
    this.#agenda.run();
    void this.webhooks.take(this.store.commit());
    this.#keys.sweep();
    this.#schedule();
  }

  /** Kept like everything else: an endpoint at Stripe survives the day as well. */
  setWebhook(webhook: WebhookOptions | undefined): void {
    this.webhooks.configure(webhook);
    if (webhook === undefined) this.#journal?.remove('webhook', '', 'endpoint');
    else {
      const json = JSON.stringify(webhook);
      this.#journal?.write([{ kind: 'webhook', tenant: '', id: 'endpoint', json }]);
    }
  }

  reset(): void {
    this.#journal?.clear();
    this.store.clear();
    this.#keys.clear();
    this.#agenda.clear();
    this.#limiter.clear();
    this.log.clear();
    this.webhooks.clear();
    this.webhooks.configure(this.#options.webhook);
    this.faults.set(this.#options.faults);
    this.#clock.reset();
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.webhooks.close();
    this.#journal?.close();
  }

  #createServer(): ReturnType<typeof createSimulatorServer> {
    const options = this.#options;
    const pipeline = new Pipeline({
      store: this.store,
      clock: this.#clock,
      keys: this.#keys,
      limiter: this.#limiter,
      faults: this.faults,
      webhooks: this.webhooks,
      tick: () => this.#tick(),
      latencyMs: options.latencyMs ?? 0,
      strictCustomers: options.strictCustomers ?? false,
      searchLagMs: options.searchLagMs ?? DEFAULT_SEARCH_LAG_MS,
    });
    const control = new Control({
      store: this.store,
      requests: (afterSeq, limit) => this.log.entries(afterSeq, limit),
      counters: () => this.counters(),
      setFaults: (plan) => this.faults.set(plan),
      nowMs: () => this.#clock.nowMs(),
      advanceClock: (ms) => this.advanceClock(ms),
      reset: () => this.reset(),
      setWebhook: (webhook) => this.setWebhook(webhook),
      deliveries: () => this.webhooks.deliveries(),
      deliver: (how) => this.webhooks.deliver(how),
    });
    return createSimulatorServer({
      pipeline,
      control,
      faults: this.faults,
      log: this.log,
      now: () => this.#clock.nowMs(),
    });
  }

  #tick(): void {
    if (this.#agenda.run()) void this.webhooks.take(this.store.commit());
    this.#schedule();
  }

  /** Wakes for the next step even when no request comes, so that its event does. */
  #schedule(): void {
    const next = this.#agenda.nextInMs();
    if (next === undefined) return;
    const at = Date.now() + next;
    if (this.#timer !== undefined && this.#timerAtMs <= at) return;
    clearTimeout(this.#timer);
    this.#timerAtMs = at;
    this.#timer = setTimeout(
      () => {
        this.#timer = undefined;
        this.#tick();
      },
      Math.min(next, MAX_TIMER_MS),
    ).unref();
  }
}

function savedWebhook(journal: Journal | undefined): WebhookOptions | undefined {
  const json = journal?.read('webhook', '', 'endpoint');
  // Written by setWebhook alone, so the shape is known.
  return json === undefined ? undefined : JSON.parse(json);
}

function limitsOf(options: SimulatorOptions): ConstructorParameters<typeof RateLimiter>[0] {
  const endpoint = options.endpointRate ?? DEFAULT_ENDPOINT_RATE;
  const account = options.accountRate ?? DEFAULT_ACCOUNT_RATE;
  return {
    endpoint: { rate: endpoint, burst: options.endpointBurst ?? endpoint },
    account: { rate: account, burst: options.accountBurst ?? account },
  };
}
