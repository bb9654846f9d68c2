// Stripe and the way to it: the project's simulator behind the real gateway, without sockets.
import Stripe from 'stripe';
import { assertNever } from '../../src/domain/assert-never.ts';
import { createStripeGateway } from '../../src/payments/stripe-gateway.ts';
import { Agenda } from '../../src/simulator/agenda.ts';
import { VirtualClock } from '../../src/simulator/clock.ts';
import { Faults } from '../../src/simulator/faults.ts';
import { IdempotencyStore, MIN_RETENTION_MS } from '../../src/simulator/idempotency.ts';
import { newId } from '../../src/simulator/ids.ts';
import { ledgerEntries, type LedgerEntry } from '../../src/simulator/ledger.ts';
import { cancelIntent } from '../../src/simulator/machine.ts';
import type { FaultRule } from '../../src/simulator/options.ts';
import { API_VERSION, Pipeline, type Outcome } from '../../src/simulator/pipeline.ts';
import { RateLimiter } from '../../src/simulator/rate-limit.ts';
import { matchRoute } from '../../src/simulator/router.ts';
import { Store } from '../../src/simulator/store.ts';
import { WebhookSender } from '../../src/simulator/webhooks.ts';
import { thisFiber, type Fiber } from './fiber.ts';
import type { StripeFault } from './plan.ts';
import type { World } from './world.ts';

/** Its account is what every key of the simulation is made for. */
const API_KEY = 'sk_test_acctSIM_1';
export const ACCOUNT = 'acct_SIM';
/** While it executes, a key is in flight and an object locked for so long. */
const EXECUTION_MS = 120;
const CLIENT_TIMEOUT_MS = 30_000;
/** A search index would lag by this; nothing of ours searches. */
const SEARCH_LAG_MS = 60_000;

/** One physical POST that left the process, as the wire saw it. */
export interface WireSend {
  readonly customer: string;
  readonly fiber: string;
  readonly path: string;
  readonly key: string | null;
  readonly attemptId: string | null;
  readonly body: string;
  readonly atMs: number;
  /** its process was stopped in the middle and went on long afterwards */
  readonly byZombie: boolean;
}

interface Arrived {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly whole: boolean;
}

/** A plan whose next rule is set by the wire for each request. */
class ArmedFaults extends Faults {
  armed: FaultRule | undefined;

  override pick(target: Parameters<Faults['pick']>[0]): FaultRule | undefined {
    return target.phase === 'body' ? this.armed : undefined;
  }

  override undo(): void {}
}

/** Stripe of one world. */
export class SimulatedStripe {
  readonly gateway: ReturnType<typeof createStripeGateway>;
  readonly sends: WireSend[] = [];
  readonly #world: World;
  readonly #store: Store;
  readonly #clock = new VirtualClock();
  readonly #agenda: Agenda;
  readonly #keys: IdempotencyStore;
  readonly #faults = new ArmedFaults(undefined);
  readonly #pipeline: Pipeline;
  readonly #lastReply = new Map<string, Arrived>();

  constructor(world: World) {
    this.#world = world;
    const clock = this.#clock;
    this.#store = new Store(clock, undefined);
    this.#agenda = new Agenda(this.#store, clock, API_VERSION);
    this.#keys = new IdempotencyStore(this.#store, undefined, {
      clock,
      retentionMs: MIN_RETENTION_MS,
    });
    const unlimited = { rate: 0, burst: 0 };
    this.#pipeline = new Pipeline({
      store: this.#store,
      clock,
      keys: this.#keys,
      limiter: new RateLimiter({ endpoint: unlimited, account: unlimited }),
      faults: this.#faults,
      webhooks: new WebhookSender(this.#store, undefined),
      tick: () => this.tick(),
      latencyMs: EXECUTION_MS,
      strictCustomers: false,
      searchLagMs: SEARCH_LAG_MS,
    });
    this.gateway = createStripeGateway({
      apiKey: API_KEY,
      apiBase: 'http://stripe.simulation',
      timeoutMs: CLIENT_TIMEOUT_MS,
      httpClient: new Wire((sent) => this.#exchange(sent)),
    });
  }

  /** What is due by now happens: late successes, bank debits. */
  tick(): void {
    if (this.#agenda.run()) this.#store.commit();
  }

  ledger(): readonly LedgerEntry[] {
    this.tick();
    return [...ledgerEntries(this.#store)];
  }

  hasPaid(customer: string): boolean {
    const paid = (entry: LedgerEntry): boolean => entry.status === 'succeeded';
    return this.ledger().some(
      (entry) => entry.metadata['chargeonce_customer'] === customer && paid(entry),
    );
  }

  /** Somebody cancels the customer's PaymentIntent in the dashboard, where Stripe lets them. */
  cancel(customer: string): void {
    const tenant = this.#store.tenant(ACCOUNT, false);
    const origin = { requestId: null, idempotencyKey: null, apiVersion: API_VERSION };
    for (const intent of tenant.intents.values()) {
      if (intent.metadata['chargeonce_customer'] !== customer) continue;
      if (intent.pending !== null || intent.status === 'succeeded') continue;
      if (intent.status === 'canceled' || intent.status === 'processing') continue;
      cancelIntent({ store: this.#store, tenant, clock: this.#clock, origin }, intent, 'abandoned');
      this.#store.commit();
      this.#world.saw('intent canceled by hand');
    }
  }

  async #exchange(sent: Sent): Promise<Arrived> {
    const fiber = thisFiber();
    const world = this.#world;
    const [path = '', query = ''] = sent.path.split('?', 2);
    const endpoint = matchRoute(sent.method, path)?.route.endpoint ?? 'unknown';
    const fault = world.faults.stripe(fiber.customer, endpoint);
    const name = `stripe ${endpoint}${fault === null ? '' : ` (${fault.kind})`}`;
    return world.portCall(fiber, name, async () => {
      if (world.stripeDown || fault?.kind === 'refuse') throw socketError('ECONNREFUSED');
      if (sent.method === 'POST') this.#noteSend(fiber, path, sent);
      const reply = this.#serve({ sent, path, query, fault, fiber });
      if (fault?.kind === 'deliveredTwice') this.#deliverAgain({ sent, path, query, fault, fiber });
      return this.#await(reply, fiber);
    });
  }

  #noteSend(fiber: Fiber, path: string, { headers, body }: Sent): void {
    this.sends.push({
      customer: fiber.customer,
      fiber: fiber.id,
      path,
      key: headers['idempotency-key'] ?? null,
      attemptId: headers['x-attempt-id'] ?? null,
      body,
      atMs: this.#world.time.nowMs,
      byZombie: fiber.wokeUp,
    });
  }

  /** The reply, or the client's time-out; the request goes on at Stripe in any case. */
  #await(reply: Promise<Arrived>, fiber: Fiber): Promise<Arrived> {
    return new Promise((resolve, reject) => {
      const limit = this.#world.time.after(CLIENT_TIMEOUT_MS, () => {
        this.#world.saw('client time-out');
        reject(Stripe.HttpClient.makeTimeoutError());
      });
      const settle = async (): Promise<void> => {
        try {
          const arrived = await reply;
          this.#world.saw(`http ${arrived.status}`);
          if (arrived.status < 300 && arrived.whole) this.#lastReply.set(fiber.customer, arrived);
          resolve(arrived);
        } catch (error) {
          reject(error instanceof Error ? error : new Error(String(error)));
        } finally {
          limit.cancel();
        }
      };
      void settle();
    });
  }

  /** A proxy that saw no answer sends the same request once more. */
  #deliverAgain(request: Request & { readonly fault: StripeFault }): void {
    this.#world.time.after(request.fault.ms, () => {
      this.#serve({ ...request, fault: null }).catch(() => {});
    });
  }

  async #serve(request: Request): Promise<Arrived> {
    const { sent, path, query, fault, fiber } = request;
    const { time } = this.#world;
    if (fault?.kind === 'lateArrival') await time.sleep(fault.ms);
    const { armed, requestId } = { armed: ruleOf(fault), requestId: newId('req').slice(0, 18) };
    this.#faults.armed = armed;
    const handling = this.#pipeline.handle({
      method: sent.method,
      path,
      query,
      headers: sent.headers,
      body: Buffer.from(sent.body),
      requestId,
    });
    this.#faults.armed = undefined;
    const outcome = await handling;
    // The way back.
    await time.sleep(5 + 40 * this.#world.lot(`reply ${fiber.id} ${fiber.calls}`));
    if (outcome.rule !== null) this.#world.saw(`stripe fault ${outcome.rule.kind}`);
    if (fault?.kind === 'swapped') return this.#swap(outcome, request, requestId);
    return arrive(outcome, requestId);
  }

  /** A proxy hands out the reply of somebody else's request. */
  #swap(outcome: Outcome, { fiber }: Request, requestId: string): Arrived {
    for (const [customer, reply] of this.#lastReply) {
      if (customer === fiber.customer) continue;
      this.#world.saw('stripe fault swapped');
      return reply;
    }
    return arrive(outcome, requestId);
  }
}

interface Request {
  readonly sent: Sent;
  readonly path: string;
  readonly query: string;
  readonly fault: StripeFault | null;
  readonly fiber: Fiber;
}

function ruleOf(fault: StripeFault | null): FaultRule | undefined {
  if (fault === null) return undefined;
  const rule = { id: 'planned', endpoint: '*' };
  switch (fault.kind) {
    case 'refuse':
    case 'lateArrival':
    case 'deliveredTwice':
    case 'swapped':
      return undefined;
    case 'slow':
    case 'lateSuccess500':
      return { ...rule, kind: fault.kind, delayMs: fault.ms };
    case 'status502acted':
      return { ...rule, kind: 'status502', act: true };
    case 'status503noRetry':
      return { ...rule, kind: 'status503', act: true, shouldRetry: false };
    case 'resetBefore':
    case 'actThenDrop':
    case 'actThen500':
    case 'fail500':
    case 'status409':
    case 'status429':
    case 'status502':
    case 'truncate':
    case 'wrongContentType':
    case 'declineOnce':
      return { ...rule, kind: fault.kind };
    default:
      return assertNever(fault.kind);
  }
}

function arrive(outcome: Outcome, requestId: string): Arrived {
  const { reply, wire } = outcome;
  if (reply === null) throw socketError('ECONNRESET');
  const headers: Record<string, string> = { 'request-id': requestId };
  for (const [name, value] of Object.entries(reply.headers)) headers[name.toLowerCase()] = value;
  const text = reply.body.toString('utf8');
  const body =
    wire === 'html'
      ? '<html>sorry</html>'
      : wire === 'truncated'
        ? text.slice(0, text.length / 2)
        : text;
  return { status: reply.status, headers, body, whole: wire === 'whole' };
}

function socketError(code: string): Error {
  return Object.assign(new Error(`simulated ${code}`), { code });
}

interface Sent {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

type MakeRequest = InstanceType<typeof Stripe.HttpClient>['makeRequest'];

/** In place of sockets, under the real key guard. */
class Wire extends Stripe.HttpClient {
  readonly #exchange: (sent: Sent) => Promise<Arrived>;

  constructor(exchange: (sent: Sent) => Promise<Arrived>) {
    super();
    this.#exchange = exchange;
  }

  override getClientName(): string {
    return 'node';
  }

  override async makeRequest(...args: Parameters<MakeRequest>): ReturnType<MakeRequest> {
    const [, , path, method, given, body] = args;
    const headers: Record<string, string> = {};
    for (const [name, value] of Object.entries(given)) headers[name.toLowerCase()] = String(value);
    return new WireResponse(await this.#exchange({ method, path, headers, body: body ?? '' }));
  }
}

class WireResponse extends Stripe.HttpClientResponse {
  readonly #arrived: Arrived;

  constructor(arrived: Arrived) {
    super(arrived.status, { ...arrived.headers });
    this.#arrived = arrived;
  }

  override getRawResponse(): unknown {
    return this.#arrived;
  }

  override async toJSON(): Promise<unknown> {
    return JSON.parse(this.#arrived.body);
  }
}
