import { createHmac } from 'node:crypto';
import { seededRandom } from './faults.ts';
import type { WebhookOptions } from './options.ts';
import { renderEvent } from './render.ts';
import type { Store, StoredEvent } from './store.ts';

/** How `deliver` sends: any order, several copies, a wrong signature or an old timestamp. */
export interface DeliverOptions {
  /** Only these events; without it every event that no endpoint has accepted yet. */
  readonly ids?: readonly string[];
  readonly types?: readonly string[];
  readonly order?: 'asIs' | 'reverse' | 'shuffle';
  readonly seed?: number;
  readonly copies?: number;
  readonly wrongSignature?: boolean;
  /** Added to the signature's timestamp: -400 is older than Stripe's tolerance of 300 s. */
  readonly timestampOffsetSeconds?: number;
}

/** One try to hand an event over; status null means that no reply came. */
export interface Delivery {
  readonly event: string;
  readonly type: string;
  readonly attempt: number;
  readonly status: number | null;
}

const TIMEOUT_MS = 10_000;
const MAX_PAUSE_MS = 60_000;
// As many deliveries at once as a small receiver can take; Stripe publishes no number.
const PARALLEL = 8;
const KEPT_DELIVERIES = 10_000;

/** The `Stripe-Signature` header: https://docs.stripe.com/webhooks#verify-manually */
export function signPayload(payload: string, secret: string, timestamp: number): string {
  const mac = createHmac('sha256', secret).update(`${timestamp}.${payload}`).digest('hex');
  return `t=${timestamp},v1=${mac}`;
}

/** Sends events to one endpoint and again on anything but 2xx. */
export class WebhookSender {
  readonly #store: Store;
  readonly #timers = new Set<NodeJS.Timeout>();
  readonly #waiting: (() => void)[] = [];
  #options: WebhookOptions | undefined;
  #deliveries: Delivery[] = [];
  #active = 0;
  #closed = false;

  constructor(store: Store, options: WebhookOptions | undefined) {
    this.#store = store;
    this.#options = options;
  }

  configure(options: WebhookOptions | undefined): void {
    this.#options = options;
  }

  get options(): WebhookOptions | undefined {
    return this.#options;
  }

  deliveries(): readonly Delivery[] {
    return this.#deliveries;
  }

  /** Takes new events. The promise ends with their first delivery when the reply is to wait for it. */
  async take(events: readonly StoredEvent[]): Promise<void> {
    const options = this.#options;
    if (options === undefined || options.mode === 'hold') return;
    const { types } = options;
    const wanted =
      types === undefined ? events : events.filter((one) => types.includes(one.event.type));
    const first = wanted.map((stored) =>
      this.#later(options.delayMs ?? 0, () => this.#deliverUntilAccepted(stored, options)),
    );
    if (options.beforeReply === true) await Promise.all(first);
  }

  /** Sends again, after a restart, what no endpoint has accepted. */
  resume(): void {
    const open = this.#undelivered();
    void this.take(open);
  }

  /** Delivers now, once per copy, as told. */
  async deliver(how: DeliverOptions): Promise<Delivery[]> {
    const options = this.#options;
    if (options === undefined) throw new TypeError('no webhook endpoint is configured');
    const chosen = this.#choose(how);
    const results: Delivery[] = [];
    for (const stored of arrange(chosen, how)) {
      const delivery = await this.#send(stored, { options, attempt: 1, how });
      if (accepted(delivery)) this.#store.markDelivered(stored);
      results.push(delivery);
    }
    return results;
  }

  clear(): void {
    for (const timer of this.#timers) clearTimeout(timer);
    this.#timers.clear();
    this.#waiting.length = 0;
    this.#deliveries = [];
  }

  close(): void {
    this.#closed = true;
    this.clear();
  }

  #choose(how: DeliverOptions): StoredEvent[] {
    if (how.ids !== undefined) {
      const ids = new Set(how.ids);
      return this.#all().filter(({ event }) => ids.has(event.id));
    }
    const open = this.#undelivered();
    const { types } = how;
    return types === undefined ? open : open.filter(({ event }) => types.includes(event.type));
  }

  #all(): StoredEvent[] {
    return this.#store
      .tenants()
      .flatMap((tenant) => tenant.events.values().map((event) => ({ tenant, event })));
  }

  #undelivered(): StoredEvent[] {
    return this.#all().filter(({ event }) => !event.delivered);
  }

  async #deliverUntilAccepted(
    stored: StoredEvent,
    options: WebhookOptions,
    attempt = 1,
  ): Promise<void> {
    let anyAccepted = false;
    for (let copy = 0; copy < (options.copies ?? 1); copy += 1) {
      const delivery = await this.#send(stored, { options, attempt, how: {} });
      anyAccepted ||= accepted(delivery);
    }
    if (this.#closed) return;
    if (anyAccepted) {
      this.#store.markDelivered(stored);
      return;
    }
    if (attempt >= (options.maxAttempts ?? 8)) return;
    const pause = Math.min(MAX_PAUSE_MS, (options.retryDelayMs ?? 1000) * 2 ** (attempt - 1));
    // Not awaited: a reply that waits for its event waits for the first try only.
    void this.#later(pause, () => this.#deliverUntilAccepted(stored, options, attempt + 1));
  }

  async #send(
    { tenant, event }: StoredEvent,
    with_: { options: WebhookOptions; attempt: number; how: DeliverOptions },
  ): Promise<Delivery> {
    const { options, how, attempt } = with_;
    await this.#slot();
    let status: number | null = null;
    try {
      const payload = JSON.stringify(renderEvent(tenant, event));
      // Real time, not the virtual clock: the receiver compares it with its own.
      const timestamp = Math.floor(Date.now() / 1000) + (how.timestampOffsetSeconds ?? 0);
      const secret = how.wrongSignature === true ? `${options.secret}x` : options.secret;
      const response = await fetch(options.url, {
        method: 'POST',
        body: payload,
        redirect: 'manual',
        signal: AbortSignal.timeout(TIMEOUT_MS),
        headers: {
          'Content-Type': 'application/json; charset=utf-8',
          'User-Agent': 'Stripe/1.0 (simulator)',
          'Stripe-Signature': signPayload(payload, secret, timestamp),
        },
      });
      await response.arrayBuffer();
      ({ status } = response);
    } catch {
      // No reply is a result like any other here: it is recorded as null and tried again.
    } finally {
      this.#active -= 1;
      this.#waiting.shift()?.();
    }
    const delivery = { event: event.id, type: event.type, attempt, status };
    this.#deliveries.push(delivery);
    if (this.#deliveries.length > 2 * KEPT_DELIVERIES) {
      this.#deliveries = this.#deliveries.slice(-KEPT_DELIVERIES);
    }
    return delivery;
  }

  async #slot(): Promise<void> {
    while (this.#active >= PARALLEL) {
      await new Promise<void>((resolve) => {
        this.#waiting.push(resolve);
      });
    }
    this.#active += 1;
  }

  #later(ms: number, work: () => Promise<void>): Promise<void> {
    if (this.#closed) return Promise.resolve();
    if (ms === 0) return work();
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#timers.delete(timer);
        work().then(resolve, reject);
      }, ms);
      this.#timers.add(timer);
    });
  }
}

function accepted({ status }: Delivery): boolean {
  return status !== null && status >= 200 && status < 300;
}

function arrange(events: readonly StoredEvent[], how: DeliverOptions): StoredEvent[] {
  const copies = events.flatMap((event) => Array.from({ length: how.copies ?? 1 }, () => event));
  if (how.order === 'reverse') return copies.toReversed();
  if (how.order !== 'shuffle') return copies;
  const random = seededRandom(`deliver:${how.seed ?? 1}`);
  return copies
    .map((event) => ({ event, at: random() }))
    .sort((a, b) => a.at - b.at)
    .map(({ event }) => event);
}
