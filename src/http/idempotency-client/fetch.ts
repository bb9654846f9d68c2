import { IdempotencyClientError } from './errors.ts';
import { prepare, type FetchLike, type IdempotentInit, type PreparedRequest } from './request.ts';
import {
  judge,
  pauseMs,
  readRetryAfter,
  RETRY_POLICY,
  type RetryPolicy,
  type Verdict,
} from './retry.ts';

export interface IdempotentFetchOptions extends Partial<RetryPolicy> {
  /** A POST, PUT, PATCH or DELETE without a key: refused (default), or sent once and never again. */
  readonly unkeyed?: 'refuse' | 'send-once';
  /** milliseconds since 1970; for tests */
  readonly now?: () => number;
  /** from 0 to 1; for tests */
  readonly random?: () => number;
}

/** What `fetch` answers, and what became of the key. */
export type IdempotentResponse = Response & {
  /** it is the stored answer of an earlier send: nothing was done this time */
  readonly replayed: boolean;
  /** the action is over. false: send it again later, with the same action */
  readonly settled: boolean;
  readonly attempts: number;
};

export type IdempotentFetch = (
  input: string | URL | Request,
  init?: IdempotentInit,
) => Promise<IdempotentResponse>;

interface World {
  readonly fetch: FetchLike;
  readonly policy: RetryPolicy;
  readonly now: () => number;
  readonly random: () => number;
}

type Outcome =
  | {
      readonly kind: 'answer';
      readonly response: Response;
      readonly replayed: boolean;
      readonly verdict: Verdict;
    }
  | { readonly kind: 'none'; readonly error: unknown };

/**
 * A `fetch` that tries again where that is safe: with the key of the user's action, the same bytes, and within bounds.
 * A request that changes something and has no key is not sent at all. An answer under a key is read whole before it is
 * handed over, so that one that breaks off is asked for again. Calls do not share anything but their action.
 */
export function idempotentFetch(
  // Looked up at each call, and called without a `this`, as browsers want it.
  fetch: FetchLike = (input, init) => globalThis.fetch(input, init),
  options: IdempotentFetchOptions = {},
): IdempotentFetch {
  const { unkeyed = 'refuse', now = Date.now, random = Math.random, ...bounds } = options;
  const world: World = { fetch, policy: { ...RETRY_POLICY, ...bounds }, now, random };
  return async (input, init = {}) => {
    const request = await prepare(input, init, unkeyed);
    return sendUntilAnswered(request, world);
  };
}

async function sendUntilAnswered(
  request: PreparedRequest,
  world: World,
): Promise<IdempotentResponse> {
  const { policy, now } = world;
  const untilMs = now() + policy.deadlineMs;
  // Without a key a second send could be a second effect.
  const maxAttempts = request.mutating && !request.keyed ? 1 : policy.maxAttempts;
  for (let attempt = 1; ; attempt += 1) {
    const outcome = await tryOnce(
      request,
      world,
      Math.min(policy.attemptTimeoutMs, untilMs - now()),
    );
    const pause = nextPause(outcome, attempt, world);
    const last = pause === null || attempt >= maxAttempts || now() + pause >= untilMs;
    if (last) return conclude(request, outcome, attempt);
    if (outcome.kind === 'answer') await outcome.response.body?.cancel();
    await wait(pause, request.signal);
  }
}

/** One send. Throws only what the caller's own signal says; a network that fails is an outcome. */
async function tryOnce(
  request: PreparedRequest,
  world: World,
  timeoutMs: number,
): Promise<Outcome> {
  request.signal?.throwIfAborted();
  const timeout = new AbortController();
  const timer = setTimeout(
    () => timeout.abort(new DOMException(`no answer within ${timeoutMs} ms`, 'TimeoutError')),
    timeoutMs,
  );
  const signals = [timeout.signal, ...(request.signal === null ? [] : [request.signal])];
  try {
    const response = await request.send(world.fetch, {
      id: crypto.randomUUID(),
      signal: AbortSignal.any(signals),
    });
    const code = request.keyed ? await readProblemCode(response) : null;
    const replayed = response.headers.get('idempotent-replayed')?.trim() === 'true';
    const verdict = judge({ status: response.status, replayed, code }, world.policy.retryStatuses);
    return { kind: 'answer', response, replayed, verdict };
  } catch (error) {
    request.signal?.throwIfAborted();
    return { kind: 'none', error };
  } finally {
    clearTimeout(timer);
  }
}

/** Reads the answer to its end, which throws when it breaks off. Its code, where it is a problem. */
async function readProblemCode(response: Response): Promise<string | null> {
  const text = await response.clone().text();
  if (response.ok || !/\bjson\b/i.test(response.headers.get('content-type') ?? '')) return null;
  try {
    const body: unknown = JSON.parse(text);
    if (typeof body !== 'object' || body === null || !('code' in body)) return null;
    return typeof body.code === 'string' ? body.code : null;
  } catch {
    return null;
  }
}

/** null: no other attempt. */
function nextPause(
  outcome: Outcome,
  attempt: number,
  { policy, now, random }: World,
): number | null {
  if (outcome.kind === 'answer' && outcome.verdict !== 'again') return null;
  const retryAfterMs =
    outcome.kind === 'answer' ? readRetryAfter(outcome.response.headers, now()) : null;
  return pauseMs(attempt, policy, { retryAfterMs, random: random() });
}

function conclude(
  request: PreparedRequest,
  outcome: Outcome,
  attempts: number,
): IdempotentResponse {
  if (outcome.kind === 'none')
    throw new IdempotencyClientError(
      'no-answer',
      `no answer after ${attempts} ${attempts === 1 ? 'attempt' : 'attempts'}` +
        (request.keyed
          ? '; whether it was done is not known. Send it again with the same action or key'
          : ''),
      { cause: outcome.error },
    );
  const { response, replayed, verdict } = outcome;
  if (request.refuseRedirect && isRedirect(response))
    throw new IdempotencyClientError(
      'redirected',
      `the server redirects elsewhere (${response.status}), and the key was not sent there`,
    );
  const settled = verdict === 'settled';
  if (settled) request.action?.end();
  return Object.assign(response, { replayed, settled, attempts });
}

function isRedirect(response: Response): boolean {
  return response.type === 'opaqueredirect' || (response.status >= 300 && response.status < 400);
}

/** Ends at once, with its reason, when the signal does. */
async function wait(ms: number, signal: AbortSignal | null): Promise<void> {
  signal?.throwIfAborted();
  await new Promise<void>((resolve) => {
    const timer = setTimeout(done, ms);
    function done() {
      clearTimeout(timer);
      signal?.removeEventListener('abort', done);
      resolve();
    }
    signal?.addEventListener('abort', done, { once: true });
  });
  signal?.throwIfAborted();
}
