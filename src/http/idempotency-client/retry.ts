/** Times and bounds of the attempts of one call. */
export interface RetryPolicy {
  /** sends of one call, the first one included */
  readonly maxAttempts: number;
  /** of the whole call, pauses included */
  readonly deadlineMs: number;
  /** of one send, until its answer is read */
  readonly attemptTimeoutMs: number;
  /** longest pause before the second attempt; doubled for each later one */
  readonly baseDelayMs: number;
  readonly maxDelayMs: number;
  /** statuses that say "not now" */
  readonly retryStatuses: readonly number[];
}

/** A minute in all, since a user waits; the key outlives it, and the user can act again. */
export const RETRY_POLICY: RetryPolicy = {
  maxAttempts: 5,
  deadlineMs: 60_000,
  attemptTimeoutMs: 20_000,
  baseDelayMs: 250,
  maxDelayMs: 8_000,
  // Not 500: a handler's answer, which is stored and would only come again.
  retryStatuses: [408, 425, 429, 502, 503, 504],
};

/** What is told from an answer. */
export interface AnswerFacts {
  readonly status: number;
  /** it is the stored response of an earlier send */
  readonly replayed: boolean;
  /** of a problem+json body, else null */
  readonly code: string | null;
}

/**
 * `again`: not now, the same request may be sent once more. `settled`: it was done or refused for good, and the action
 * is over. `open`: sending again now would change nothing, and it is not known what was done, or it was not done yet.
 */
export type Verdict = 'again' | 'settled' | 'open';

const SEE_OTHER = 303;

/** What an answer means for the request and for its key. */
export function judge(facts: AnswerFacts, retryStatuses: readonly number[]): Verdict {
  const { status, replayed, code } = facts;
  // Stored, so it is the last word, 503 included. What a 5xx did nobody knows, and its key is not given up for a new one.
  if (replayed) return status >= 500 ? 'open' : 'settled';
  if (code === 'idempotency-key-in-use') return 'again';
  if (code === 'idempotency-key-interrupted' || code === 'idempotency-key-reused') return 'open';
  if (retryStatuses.includes(status)) return 'again';
  // Nobody was asked to do it: log in, and send it again.
  if (status === 401) return 'open';
  if (status >= 400 && status < 500) return 'settled';
  if (status >= 200 && status < 300) return 'settled';
  // Any other redirect says that it was not done here; a browser shows it as status 0.
  return status === SEE_OTHER ? 'settled' : 'open';
}

/** Full jitter, so that clients that failed together do not come back together; never before the server wants. */
export function pauseMs(
  attempt: number,
  policy: RetryPolicy,
  given: { readonly retryAfterMs: number | null; readonly random: number },
): number {
  const { retryAfterMs, random } = given;
  if (retryAfterMs !== null) return retryAfterMs + random * policy.baseDelayMs;
  return random * Math.min(policy.maxDelayMs, policy.baseDelayMs * 2 ** (attempt - 1));
}

/** Reads `Retry-After`: seconds or a date of HTTP. null where there is none, or none that can be read. */
export function readRetryAfter(headers: Headers, nowMs: number): number | null {
  const value = headers.get('retry-after')?.trim() ?? '';
  if (/^\d+$/.test(value)) return Number(value) * 1_000;
  const untilMs = httpDate(value);
  if (untilMs === null) return null;
  // By the server's own clock where it shows it: the two may be hours apart.
  return Math.max(0, untilMs - (httpDate(headers.get('date') ?? '') ?? nowMs));
}

function httpDate(value: string): number | null {
  if (!/^[A-Za-z]{3,9},? .* GMT$/.test(value)) return null;
  const ms = Date.parse(value);
  return Number.isNaN(ms) ? null : ms;
}
