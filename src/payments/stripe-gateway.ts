import http from 'node:http';
import https from 'node:https';
import Stripe from 'stripe';
import { z } from 'zod';
import {
  LookupFailed,
  type FrozenSend,
  type ListQuery,
  type PaymentGateway,
  type PaymentIntentFacts,
  type Refusal,
  type SendReply,
} from './gateway.ts';
import {
  answerOf,
  IdempotencyKeyMissing,
  KeyGuardTransport,
  type SendInFlight,
} from './key-guard.ts';

/** The version new requests are frozen with. Raising it never changes what an existing key sends. */
const STRIPE_API_VERSION = '2026-10-28.endive';

/** Whoever asks for more patience than this gets it in a settle round: retries stay within a key's life. */
const MAX_RETRY_AFTER_MS = 60_000;
/** Largest page of a v1 list (docs.stripe.com/api/pagination). */
const LIST_PAGE = 100;
/** One customer and a few minutes hold a handful of intents; more means the query is wrong. */
const MAX_LIST_PAGES = 50;
/** Sockets kept to Stripe: above charges in flight of one worker, so none waits for another. */
const MAX_SOCKETS = 128;

export interface StripeGatewayOptions {
  readonly apiKey: string;
  /** another host than api.stripe.com, for test doubles and the vault */
  readonly apiBase?: string | undefined;
  /** time-out of one HTTP request, in milliseconds */
  readonly timeoutMs: number;
}

/** The only file that imports stripe: its retries off, our transport under it. */
export function createStripeGateway(
  options: StripeGatewayOptions,
): PaymentGateway & { close(): void } {
  const base = options.apiBase === undefined ? null : new URL(options.apiBase);
  const agent =
    base?.protocol === 'http:'
      ? new http.Agent({ keepAlive: true, maxSockets: MAX_SOCKETS })
      : new https.Agent({ keepAlive: true, maxSockets: MAX_SOCKETS });
  const transport = new KeyGuardTransport(Stripe.createNodeHttpClient(agent));
  const stripe = new Stripe(options.apiKey, {
    apiVersion: STRIPE_API_VERSION,
    maxNetworkRetries: 0,
    timeout: options.timeoutMs,
    telemetry: false,
    httpClient: transport,
    ...(base === null ? {} : hostOptions(base)),
  });

  const post = (path: string, send: FrozenSend) => sendFrozen({ stripe, transport, path, send });
  const get = async (path: string): Promise<unknown> => {
    try {
      return await stripe.rawRequest('GET', path);
    } catch (error) {
      const status = error instanceof Stripe.errors.StripeError ? (error.statusCode ?? null) : null;
      const said = error instanceof Error ? error.message : 'unknown error';
      throw new LookupFailed(`GET ${path.split('?')[0]} failed: ${said}`, { status, cause: error });
    }
  };

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
      return parseIntent(await get(`/v1/payment_intents/${encodeURIComponent(id)}`));
    },
    listPaymentIntents: (query) => listAll(get, query),
    close: () => agent.destroy(),
  };
}

function hostOptions(base: URL): { host: string; port: string; protocol: 'http' | 'https' } {
  const protocol = base.protocol === 'http:' ? 'http' : 'https';
  return { host: base.hostname, port: base.port || (protocol === 'http' ? '80' : '443'), protocol };
}

async function sendFrozen(call: {
  stripe: Stripe;
  transport: KeyGuardTransport;
  path: string;
  send: FrozenSend;
}): Promise<SendReply> {
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
    return readIntentReply(body, inFlight);
  } catch (error) {
    return readFailure(error, inFlight);
  } finally {
    transport.end(send.attemptId);
  }
}

function readIntentReply(body: unknown, inFlight: SendInFlight): SendReply {
  const answer = answerOf(inFlight);
  const parsed = intentSchema.safeParse(body);
  // A 2xx that is no PaymentIntent cannot be trusted in either direction.
  if (!parsed.success) return { kind: 'lost', reason: 'unreadable_reply', answer };
  return { kind: 'intent', intent: toFacts(parsed.data), answer };
}

function readFailure(error: unknown, inFlight: SendInFlight): SendReply {
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

async function listAll(
  get: (path: string) => Promise<unknown>,
  query: ListQuery,
): Promise<readonly PaymentIntentFacts[]> {
  const found: PaymentIntentFacts[] = [];
  let after: string | null = null;
  for (let page = 0; page < MAX_LIST_PAGES; page += 1) {
    const params = new URLSearchParams({
      customer: query.customer,
      'created[gte]': String(query.createdGte),
      limit: String(LIST_PAGE),
    });
    if (after !== null) params.set('starting_after', after);
    const list = parseReply(listSchema, await get(`/v1/payment_intents?${params.toString()}`));
    found.push(...list.data.map(toFacts));
    after = list.data.at(-1)?.id ?? null;
    if (!list.has_more || after === null) return found;
  }
  throw new LookupFailed(`listing ${query.customer} did not end after ${MAX_LIST_PAGES} pages`, {
    status: null,
    cause: undefined,
  });
}

const nullable = z.string().nullish();
const expandable = z.union([z.string(), z.object({ id: z.string() })]).nullish();

const accountSchema = z.object({ id: z.string().min(1) });
const intentSchema = z.object({
  object: z.literal('payment_intent'),
  id: z.string().min(1),
  status: z.string(),
  amount: z.int(),
  currency: z.string(),
  customer: expandable,
  metadata: z.record(z.string(), z.string()).nullish(),
  latest_charge: expandable,
  last_payment_error: z
    .object({ code: nullable, decline_code: nullable, advice_code: nullable, charge: nullable })
    .nullish(),
});
const errorSchema = z.object({
  type: nullable,
  code: nullable,
  decline_code: nullable,
  advice_code: nullable,
  message: nullable,
  payment_intent: intentSchema.nullish().catch(null),
});
const listSchema = z.object({ data: z.array(intentSchema), has_more: z.boolean() });

function parseIntent(body: unknown): PaymentIntentFacts {
  return toFacts(parseReply(intentSchema, body));
}

function parseReply<T>(schema: z.ZodType<T>, body: unknown): T {
  const parsed = schema.safeParse(body);
  if (parsed.success) return parsed.data;
  throw new LookupFailed('the answer is not what Stripe documents', {
    status: null,
    cause: parsed.error,
  });
}

function toFacts(intent: z.infer<typeof intentSchema>): PaymentIntentFacts {
  const error = intent.last_payment_error;
  return {
    id: intent.id,
    status: intent.status,
    amountMinor: intent.amount,
    currency: intent.currency,
    customer: idOf(intent.customer),
    metadata: intent.metadata ?? {},
    latestCharge: idOf(intent.latest_charge),
    lastError:
      error == null
        ? null
        : {
            code: error.code ?? null,
            declineCode: error.decline_code ?? null,
            adviceCode: error.advice_code ?? null,
            chargeId: error.charge ?? null,
          },
  };
}

function idOf(value: string | { id: string } | null | undefined): string | null {
  if (value == null) return null;
  return typeof value === 'string' ? value : value.id;
}
