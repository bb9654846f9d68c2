import { Stripe } from 'stripe';
import { startSimulator } from '../../../src/simulator/index.ts';
import type {
  LedgerEntry,
  LedgerGroup,
  RequestEntry,
  Simulator,
  SimulatorOptions,
} from '../../../src/simulator/index.ts';

/** A simulator without rate limits; tests of the limits set their own. */
export function startUnlimited(options: SimulatorOptions = {}): Promise<Simulator> {
  return startSimulator({ endpointRate: 0, accountRate: 0, ...options });
}

/** The official client, pointed at the simulator, with its own retries off. */
export function clientOf(at: { readonly port: number }, key = 'sk_test_acctA_1'): Stripe {
  return new Stripe(key, {
    host: '127.0.0.1',
    port: at.port,
    protocol: 'http',
    maxNetworkRetries: 0,
    telemetry: false,
  });
}

/** Parameters of a PaymentIntent as chargeonce creates it. */
export function intentParams(
  customer: string,
  more: Partial<Stripe.PaymentIntentCreateParams> = {},
): Stripe.PaymentIntentCreateParams {
  return {
    amount: 1500,
    currency: 'usd',
    customer: `cus_${customer}`,
    payment_method: 'pm_card_visa',
    metadata: {
      chargeonce_namespace: 'base',
      chargeonce_customer: customer,
      chargeonce_period: '2026-09',
    },
    ...more,
  };
}

/** The id of an object that Stripe shows by id or expanded. */
export function idOf(object: string | { readonly id: string } | null | undefined): string {
  return typeof object === 'string' ? object : (object?.id ?? '');
}

/** The error a call ends with; a call that succeeds is a failed test. */
export async function errorOf(call: Promise<unknown>): Promise<Stripe.errors.StripeError> {
  try {
    await call;
  } catch (error) {
    if (error instanceof Stripe.errors.StripeError) return error;
    throw error;
  }
  throw new Error('the call was expected to fail');
}

interface ReplyJson {
  readonly id: string;
  readonly status: string;
  readonly error: { readonly type: string; readonly code?: string; readonly message: string };
}

/** What the control API answers, by path. */
interface ControlReplies {
  readonly ledger: {
    readonly entries: readonly LedgerEntry[];
    readonly groups: readonly LedgerGroup[];
    readonly has_more: boolean;
    readonly next: string | null;
  };
  readonly requests: {
    readonly requests: readonly RequestEntry[];
    readonly has_more: boolean;
    readonly next: number | null;
  };
  readonly clock: { readonly nowMs: number };
  readonly counters: ReturnType<Simulator['counters']>;
  readonly health: { readonly ok: boolean };
  readonly webhooks: {
    readonly deliveries: readonly { readonly attempt: number; readonly status: number | null }[];
  };
}

/** Reads `/_sim/<name>` with the query. */
export async function readControl<Name extends keyof ControlReplies>(
  at: { readonly url: string },
  name: Name,
  query = '',
): Promise<ControlReplies[Name]> {
  const text = await (await fetch(`${at.url}/_sim/${name}${query}`)).text();
  const reply: ControlReplies[Name] = JSON.parse(text);
  return reply;
}

/** One request past the SDK, to see status, headers and exact bytes. */
export async function send(
  at: { readonly url: string },
  path: string,
  request: {
    body?: Record<string, string>;
    key?: string;
    secret?: string;
    headers?: Record<string, string>;
  } = {},
): Promise<{ status: number; headers: Headers; text: string; json: ReplyJson }> {
  const response = await fetch(`${at.url}${path}`, {
    method: request.body === undefined ? 'GET' : 'POST',
    headers: {
      Authorization: `Bearer ${request.secret ?? 'sk_test_acctA_1'}`,
      ...(request.key === undefined ? {} : { 'Idempotency-Key': request.key }),
      ...request.headers,
    },
    ...(request.body === undefined ? {} : { body: new URLSearchParams(request.body) }),
  });
  const text = await response.text();
  const json: ReplyJson = JSON.parse(text);
  return { status: response.status, headers: response.headers, text, json };
}
