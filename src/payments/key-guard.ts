import { randomUUID } from 'node:crypto';
import Stripe from 'stripe';
import type { AttemptAnswer } from '../domain/charge.ts';

type HttpClient = InstanceType<typeof Stripe.HttpClient>;
type MakeRequest = HttpClient['makeRequest'];
type MakeRequestArgs = Parameters<MakeRequest>;
type RequestHeaders = MakeRequestArgs[4];
type HttpResponse = Awaited<ReturnType<MakeRequest>>;

/** Thrown instead of sending: the POST had no idempotency key of ours. Nothing has left the process. */
export class IdempotencyKeyMissing extends Error {
  override readonly name = 'IdempotencyKeyMissing';
}

export interface SendInFlight {
  readonly body: string;
  readonly onResend: (resend: { attemptId: string; lost: AttemptAnswer }) => Promise<void>;
  /** id of the physical send that is out now; a resend gets its own */
  attemptId: string;
  sends: number;
  startedAt: number;
  /** the last physical answer's status and headers, whatever the SDK makes of the body */
  status: number | null;
  headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  lastError: string | null;
}

const ATTEMPT_HEADER = 'X-Attempt-Id';

/** What Stripe takes as a key, and what survives an HTTP header: visible ASCII, no more than 255 of it. */
const KEY_SHAPE = /^[\x21-\x7e]{1,255}$/;

/** The SDK makes a random key per call when it is given none; to us that is no key at all. */
const SDK_MADE_KEY = /^stripe-node-retry-/;

/**
 * The transport under the Stripe SDK. It throws on any POST without an idempotency key (and never
 * makes one up), sends the frozen bytes instead of what the SDK encoded, and gives every physical
 * send its own X-Attempt-Id, because the SDK resends once on a closed connection even with its
 * retries off.
 */
export class KeyGuardTransport extends Stripe.HttpClient {
  readonly #inner: HttpClient;
  readonly #inFlight = new Map<string, SendInFlight>();

  constructor(inner: HttpClient) {
    super();
    this.#inner = inner;
  }

  override getClientName(): string {
    return 'node';
  }

  /** Registers a send under its attempt id; the SDK call that follows carries the id as a header. */
  begin(send: {
    attemptId: string;
    body: string;
    onResend: SendInFlight['onResend'];
  }): SendInFlight {
    const inFlight: SendInFlight = {
      ...send,
      sends: 0,
      startedAt: performance.now(),
      status: null,
      headers: {},
      lastError: null,
    };
    this.#inFlight.set(send.attemptId, inFlight);
    return inFlight;
  }

  /** Forgets a send. Must follow every {@link begin}. */
  end(firstAttemptId: string): void {
    this.#inFlight.delete(firstAttemptId);
  }

  // The SDK calls this synchronously inside a promise chain whose rejection it cannot handle, so
  // everything that can throw stays inside the async function.
  override async makeRequest(...args: MakeRequestArgs): Promise<HttpResponse> {
    const [, , path, method, headers, data] = args;
    if (method !== 'POST') return this.#inner.makeRequest(...args);
    const key = headers['Idempotency-Key'];
    if (typeof key !== 'string' || !KEY_SHAPE.test(key) || SDK_MADE_KEY.test(key)) {
      throw new IdempotencyKeyMissing(
        `refused to send POST ${path} without a usable Idempotency-Key: pass the stored key of the generation`,
      );
    }
    const given = headers[ATTEMPT_HEADER];
    const inFlight = typeof given === 'string' ? this.#inFlight.get(given) : undefined;
    if (inFlight === undefined) {
      return this.#send(args, { headers: { [ATTEMPT_HEADER]: randomUUID() }, body: data });
    }
    await this.#nextAttempt(inFlight);
    try {
      const response = await this.#send(args, {
        headers: {
          [ATTEMPT_HEADER]: inFlight.attemptId,
          'Content-Length': Buffer.byteLength(inFlight.body),
        },
        body: inFlight.body,
      });
      inFlight.status = response.getStatusCode();
      inFlight.headers = response.getHeaders();
      return response;
    } catch (error) {
      inFlight.lastError = describeSocketError(error);
      throw error;
    }
  }

  /** The SDK's request with headers of ours on top and the bytes that are to leave. */
  #send(args: MakeRequestArgs, ours: { headers: RequestHeaders; body: string }) {
    const [host, port, path, method, headers, , protocol, timeout] = args;
    const wireHeaders = { ...headers, ...ours.headers };
    return this.#inner.makeRequest(
      host,
      port,
      path,
      method,
      wireHeaders,
      ours.body,
      protocol,
      timeout,
    );
  }

  async #nextAttempt(inFlight: SendInFlight): Promise<void> {
    inFlight.sends += 1;
    if (inFlight.sends > 1) {
      const lost = answerOf(inFlight);
      const attemptId = randomUUID();
      await inFlight.onResend({ attemptId, lost });
      inFlight.attemptId = attemptId;
      inFlight.status = null;
      inFlight.headers = {};
      inFlight.lastError = null;
    }
    inFlight.startedAt = performance.now();
  }
}

/** What is known of the physical send that is (or was) out: status and ids, never the body. */
export function answerOf(inFlight: SendInFlight): AttemptAnswer {
  const header = (name: string): string | null => {
    const value = inFlight.headers[name];
    return typeof value === 'string' ? value : null;
  };
  return {
    attemptId: inFlight.attemptId,
    httpStatus: inFlight.status,
    error: inFlight.lastError ?? (inFlight.status === null ? 'no answer' : null),
    stripeRequestId: header('request-id'),
    replayed: header('idempotent-replayed') === 'true',
    durationMs: Math.round(performance.now() - inFlight.startedAt),
  };
}

function describeSocketError(error: unknown): string {
  if (!(error instanceof Error)) return 'unknown socket error';
  const code = 'code' in error && typeof error.code === 'string' ? error.code : error.name;
  return code.slice(0, 100);
}
