import http from 'node:http';
import https from 'node:https';
import Stripe from 'stripe';
import type { AttemptAnswer } from '../domain/charge.ts';
import {
  LookupFailed,
  type EventQuery,
  type FrozenSend,
  type PaymentGateway,
  type Refusal,
  type SendReply,
} from './gateway.ts';
import { createRefundGateway, type RefundGateway } from './refund-gateway.ts';
import {
  answerOf,
  IdempotencyKeyMissing,
  KeyGuardTransport,
  type SendInFlight,
} from './key-guard.ts';
import { listAll, type PagedQuery } from './stripe-lists.ts';
import {
  accountSchema,
  chargeSchema,
  errorSchema,
  eventSchema,
  intentSchema,
  parseReply,
  toCharge,
  toEvent,
  toFacts,
} from './stripe-replies.ts';

/** The version new requests are frozen with. Raising it never changes what an existing key sends. */
export const STRIPE_API_VERSION = '2026-10-28.endive';

/** Whoever asks for more patience than this gets it in a settle round: retries stay within a key's life. */
const MAX_RETRY_AFTER_MS = 60_000;
/** One customer and a few minutes hold a handful of intents; more means the query is wrong. */
const MAX_LIST_PAGES = 50;
/** Sockets kept to Stripe: above charges in flight of one worker, so none waits for another. */
export const MAX_SOCKETS = 128;

export interface StripeGatewayOptions {
  readonly apiKey: string;
  /** another host than api.stripe.com, for test doubles and the vault */
  readonly apiBase?: string | undefined;
  /** time-out of one HTTP request, in milliseconds */
  readonly timeoutMs: number;
  /** sockets of somebody else, which {@link createStripeGateway}'s close leaves open */
  readonly agent?: http.Agent;
  /** the sockets under the key guard; tests put a network of their own here */
  readonly httpClient?: InstanceType<typeof Stripe.HttpClient>;
}

/** The only file that imports stripe: its retries off, our transport under it. */
export function createStripeGateway(
  options: StripeGatewayOptions,
): PaymentGateway & { readonly refunds: RefundGateway; close(): void } {
  const base = options.apiBase === undefined ? null : new URL(options.apiBase);
  const Agent = base?.protocol === 'http:' ? http.Agent : https.Agent;
  const agent = options.agent ?? new Agent({ keepAlive: true, maxSockets: MAX_SOCKETS });
  const transport = new KeyGuardTransport(options.httpClient ?? Stripe.createNodeHttpClient(agent));
  const stripe = new Stripe(options.apiKey, {
    apiVersion: STRIPE_API_VERSION,
    maxNetworkRetries: 0,
    timeout: options.timeoutMs,
    telemetry: false,
    httpClient: transport,
    ...(base === null ? {} : hostOptions(base)),
  });

  const send = (path: string, frozen: FrozenSend) =>
    sendFrozen({ stripe, transport, path, send: frozen });
  const post = async (path: string, frozen: FrozenSend): Promise<SendReply> =>
    readIntentReply(await send(path, frozen));
  const get = async (path: string): Promise<unknown> => {
    try {
      return await stripe.rawRequest('GET', path);
    } catch (error) {
      const status = error instanceof Stripe.errors.StripeError ? (error.statusCode ?? null) : null;
      const said = error instanceof Error ? error.message : 'unknown error';
      throw new LookupFailed(`GET ${path.split('?')[0]} failed: ${said}`, { status, cause: error });
    }
  };

  const all = <T extends { readonly id: string }>(query: Omit<PagedQuery<T>, 'maxPages'>) =>
    listAll(get, { ...query, maxPages: MAX_LIST_PAGES });

  return {
    apiVersion: STRIPE_API_VERSION,
    async account() {
      const account = accountSchema.parse(await get('/v1/account'));
      return { id: account.id };
    },
    createPaymentIntent: (send) => post('/v1/payment_intents', send),
    confirmPaymentIntent: (id, send) =>
      post(`/v1/payment_intents/${encodeURIComponent(id)}/confirm`, send),
    async retrievePaymentIntent(id) {
      const reply = await get(`/v1/payment_intents/${encodeURIComponent(id)}`);
      return toFacts(parseReply(intentSchema, reply));
    },
    async listPaymentIntents({ customer, createdGte }) {
      const params = { customer, 'created[gte]': String(createdGte) };
      const path = '/v1/payment_intents';
      return (await all({ path, params, item: intentSchema })).map(toFacts);
    },
    async listChargesOf(id) {
      const params = { payment_intent: id };
      return (await all({ path: '/v1/charges', params, item: chargeSchema })).map(toCharge);
    },
    async retrieveCharge(id) {
      const reply = await get(`/v1/charges/${encodeURIComponent(id)}`);
      return toCharge(parseReply(chargeSchema, reply));
    },
    async listEvents(query) {
      const params = eventParams(query);
      return (await all({ path: '/v1/events', params, item: eventSchema })).map(toEvent);
    },
    refunds: createRefundGateway({ apiVersion: STRIPE_API_VERSION, get, post: send }),
    close: () => {
      if (options.agent === undefined) agent.destroy();
    },
  };
}

function hostOptions(base: URL): { host: string; port: string; protocol: 'http' | 'https' } {
  const protocol = base.protocol === 'http:' ? 'http' : 'https';
  return { host: base.hostname, port: base.port || (protocol === 'http' ? '80' : '443'), protocol };
}

/** What came back for one POST, before anybody has read what it is about. */
type RawReply =
  | { readonly kind: 'body'; readonly body: unknown; readonly answer: AttemptAnswer }
  | Exclude<SendReply, { kind: 'intent' }>;

async function sendFrozen(call: {
  stripe: Stripe;
  transport: KeyGuardTransport;
  path: string;
  send: FrozenSend;
}): Promise<RawReply> {
  const { stripe, transport, path, send } = call;
  const inFlight = transport.begin(send);
  try {
    // The transport replaces the (empty) parameters by the frozen bytes.
    const body: unknown = await stripe.rawRequest(
      'POST',
      path,
      {},
      {
        idempotencyKey: send.idempotencyKey,
        apiVersion: send.apiVersion,
        additionalHeaders: { 'X-Attempt-Id': send.attemptId },
      },
    );
    return { kind: 'body', body, answer: answerOf(inFlight) };
  } catch (error) {
    return readFailure(error, inFlight);
  } finally {
    transport.end(send.attemptId);
  }
}

function readIntentReply(reply: RawReply): SendReply {
  if (reply.kind !== 'body') return reply;
  const { answer } = reply;
  const parsed = intentSchema.safeParse(reply.body);
  // A 2xx that is no PaymentIntent cannot be trusted in either direction.
  if (!parsed.success) return { kind: 'lost', reason: 'unreadable_reply', answer };
  return { kind: 'intent', intent: toFacts(parsed.data), answer };
}

function readFailure(error: unknown, inFlight: SendInFlight): Exclude<RawReply, { kind: 'body' }> {
  const guard = findKeyGuardError(error);
  if (guard !== null) throw guard;
  const answer = answerOf(inFlight);
  const status = inFlight.status;
  if (status === null || !(error instanceof Stripe.errors.StripeError)) {
    return { kind: 'lost', reason: answer.error ?? 'no_answer', answer };
  }
  const readable = error.statusCode !== undefined;
  // Without a readable body only these statuses say enough: an unreadable 400 may be an
  // idempotency_error, an unreadable 402 the vault's, an unreadable 200 anything.
  const clear = status === 401 || status === 409 || status === 429 || status >= 500;
  if (!readable && !clear) return { kind: 'lost', reason: 'unreadable_reply', answer };
  return { kind: 'refused', refusal: toRefusal({ error, status, readable, inFlight }), answer };
}

function findKeyGuardError(error: unknown): IdempotencyKeyMissing | null {
  if (error instanceof IdempotencyKeyMissing) return error;
  // The SDK wraps what its transport throws.
  const wrapped = error instanceof Stripe.errors.StripeError && 'detail' in error;
  return wrapped && error.detail instanceof IdempotencyKeyMissing ? error.detail : null;
}

function toRefusal(from: {
  error: InstanceType<typeof Stripe.errors.StripeError>;
  status: number;
  readable: boolean;
  inFlight: SendInFlight;
}): Refusal {
  const { headers } = from.inFlight;
  const raw = from.readable ? errorSchema.safeParse(from.error.raw) : null;
  const body = raw?.success === true ? raw.data : null;
  const should = headers['stripe-should-retry'];
  const after = Number(headers['retry-after']);
  return {
    status: from.status,
    type: body?.type ?? null,
    code: body?.code ?? null,
    declineCode: body?.decline_code ?? null,
    adviceCode: body?.advice_code ?? null,
    message: body?.message ?? null,
    shouldRetry: should === 'true' ? true : should === 'false' ? false : null,
    retryAfterMs: after > 0 ? Math.min(after * 1000, MAX_RETRY_AFTER_MS) : null,
    paymentIntent: body?.payment_intent == null ? null : toFacts(body.payment_intent),
  };
}

function eventParams(query: EventQuery): Record<string, string> {
  return {
    'created[gte]': String(query.createdGte),
    'created[lte]': String(query.createdLte),
    ...Object.fromEntries(query.types.map((type, index) => [`types[${index}]`, type])),
  };
}
