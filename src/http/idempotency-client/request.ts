import type { UserAction } from './action.ts';
import { IdempotencyClientError } from './errors.ts';

/** What `fetch` takes, and the action that the request belongs to. */
export interface IdempotentInit extends RequestInit {
  readonly action?: UserAction;
}

/** A request that can be sent any number of times, always with the same bytes. */
export interface PreparedRequest {
  /** it changes something at the server */
  readonly mutating: boolean;
  /** it carries a key */
  readonly keyed: boolean;
  readonly action: UserAction | null;
  readonly signal: AbortSignal | null;
  /** a redirect is an error */
  readonly refuseRedirect: boolean;
  readonly send: (fetch: FetchLike, attempt: Attempt) => Promise<Response>;
}

export type FetchLike = (input: string | URL | Request, init?: RequestInit) => Promise<Response>;

interface Attempt {
  readonly id: string;
  readonly signal: AbortSignal;
}

interface FrozenBody {
  readonly bytes: Uint8Array<ArrayBuffer> | null;
  /** what `fetch` would have named; null where the caller's headers say it */
  readonly type: string | null;
}

const SAFE = new Set(['GET', 'HEAD', 'OPTIONS']);
const KEY_HEADER = 'idempotency-key';
const ATTEMPT_HEADER = 'x-attempt-id';

/** Reads the body once, puts the key on, and refuses what could not be repeated. Sends nothing. */
export async function prepare(
  input: string | URL | Request,
  { action, ...init }: IdempotentInit,
  unkeyed: 'refuse' | 'send-once',
): Promise<PreparedRequest> {
  const whole = input instanceof Request ? input : null;
  const method = (init.method ?? whole?.method ?? 'GET').toUpperCase();
  const mutating = !SAFE.has(method);
  const headers = new Headers(init.headers ?? whole?.headers);
  if (mutating && action !== undefined) putKey(headers, action);
  const keyed = mutating && (headers.get(KEY_HEADER) ?? '') !== '';
  if (mutating && !keyed && unkeyed === 'refuse') throw missing(method);
  const body = await freeze(whole, init.body, mutating);
  if (body.type !== null && !headers.has('content-type')) headers.set('content-type', body.type);
  const redirect = init.redirect ?? (mutating ? 'manual' : (whole?.redirect ?? 'follow'));
  const fixed: RequestInit = {
    ...init,
    method,
    redirect: mutating && redirect === 'error' ? 'manual' : redirect,
    ...(body.bytes === null ? {} : { body: body.bytes }),
  };
  // Throws here for a URL or header that is none, and not at each attempt as if the network had failed.
  const { url } = new Request(input, { ...fixed, headers });
  if (keyed && action !== undefined) action.bind(await digest({ method, url, headers, body }));
  return {
    mutating,
    keyed,
    action: keyed ? (action ?? null) : null,
    signal: init.signal ?? whole?.signal ?? null,
    refuseRedirect: mutating && redirect === 'error',
    send: (fetch, attempt) => {
      const own = new Headers(headers);
      if (mutating) own.set(ATTEMPT_HEADER, attempt.id);
      const all = { ...fixed, headers: own, signal: attempt.signal };
      return whole === null ? fetch(input, all) : fetch(new Request(whole, all));
    },
  };
}

/** As a String of RFC 8941, the form of draft-ietf-httpapi-idempotency-key-header. */
function putKey(headers: Headers, { key }: UserAction): void {
  if (headers.has(KEY_HEADER))
    throw new IdempotencyClientError(
      'key-malformed',
      'give the request an action or an Idempotency-Key header, not both',
    );
  headers.set(KEY_HEADER, `"${key.replaceAll(/["\\]/g, String.raw`\$&`)}"`);
}

function missing(method: string): IdempotencyClientError {
  return new IdempotencyClientError(
    'key-missing',
    `this ${method} has no Idempotency-Key and was not sent: if its answer got lost, a retry could do it twice. ` +
      'Call newUserAction() once when the user acts, and pass it with every send: { action }',
  );
}

async function freeze(
  whole: Request | null,
  body: RequestInit['body'],
  mutating: boolean,
): Promise<FrozenBody> {
  if (body === undefined || body === null) {
    if (whole === null || whole.body === null || !mutating) return { bytes: null, type: null };
    if (whole.bodyUsed) throw notRepeatable('of this Request has been read already');
    return { bytes: new Uint8Array(await whole.arrayBuffer()), type: null };
  }
  if (isStream(body))
    throw notRepeatable(
      'is a stream, which can be sent once only. Read it first, and give its bytes',
    );
  // The boundary of a form is chosen here, once; fetch would choose another one for every attempt.
  const read = new Response(body);
  const type = read.headers.get('content-type');
  return { bytes: new Uint8Array(await read.arrayBuffer()), type };
}

function isStream(body: NonNullable<RequestInit['body']>): boolean {
  return (
    typeof body === 'object' && (body instanceof ReadableStream || Symbol.asyncIterator in body)
  );
}

function notRepeatable(problem: string): IdempotencyClientError {
  return new IdempotencyClientError('body-not-repeatable', `the body ${problem}. Nothing was sent`);
}

/** SHA-256 over the parts, each behind its length: what the key stands for, without keeping its content. */
async function digest(request: {
  readonly method: string;
  readonly url: string;
  readonly headers: Headers;
  readonly body: FrozenBody;
}): Promise<string> {
  const { method, url, headers, body } = request;
  const [place = ''] = url.split('#');
  const head = [method, place, headers.get('content-type') ?? '']
    .map((part) => `${part.length}:${part},`)
    .join('');
  const framed = await new Blob([head, body.bytes ?? '']).arrayBuffer();
  const hash = new Uint8Array(await crypto.subtle.digest('SHA-256', framed));
  return Array.from(hash, (byte) => byte.toString(16).padStart(2, '0')).join('');
}
