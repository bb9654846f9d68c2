/** What the vault wants to know of a request's head. */
export interface RequestHead {
  /** as sent, not yet known to be a vault key; null when there is none */
  readonly credential: string | null;
  readonly idempotencyKey: string | null;
  /** X-Attempt-Id of the client */
  readonly attemptId: string | null;
  readonly contentType: string | null;
  /** goes to Stripe byte by byte; Authorization and Content-Length are put in later */
  readonly forward: readonly (readonly [name: string, value: string])[];
}

type HeadProblem =
  | 'bad_header'
  | 'account_header_not_allowed'
  | 'idempotency_key_invalid'
  | 'unsupported_media_type';

export type Head =
  | { readonly ok: true; readonly head: RequestHead }
  | { readonly ok: false; readonly code: HeadProblem };

/** Names as Stripe's clients write them. Nothing else of the client's reaches Stripe. */
const FORWARDED = new Map(
  [
    'Accept',
    'Content-Type',
    'Idempotency-Key',
    'Stripe-Version',
    'User-Agent',
    'X-Attempt-Id',
    'X-Stripe-Client-User-Agent',
  ].map((name) => [name.toLowerCase(), name]),
);

/** Which of two would count is somebody else's choice, so there may be only one. */
const SINGLE = new Set([
  ...FORWARDED.keys(),
  'authorization',
  'content-encoding',
  'content-length',
  'expect',
  'host',
  'transfer-encoding',
]);

/** `Connection:` may take away what belongs to the connection, never what the vault decides by or passes on. */
const NOT_OF_THE_CONNECTION = new Set([...SINGLE, 'stripe-account', 'stripe-context']);
NOT_OF_THE_CONNECTION.delete('transfer-encoding');

const PRINTABLE = /^[\x20-\x7e]*$/;
const IDEMPOTENCY_KEY = /^[\x20-\x7e]{1,255}$/;
const MAX_ATTEMPT_ID_LENGTH = 255;
/** A key of somebody's in a name that is written down would be a secret in the audit. */
const SECRET = /(?:[rsv]k_(?:test|live)|whsec)_/;

/**
 * Reads Node's rawHeaders: name, value, name, value. A doubled header that counts, one that `Connection:` would strip,
 * or a byte that is not printable ASCII is refused. Pure, never throws.
 */
export function readHead(rawHeaders: readonly string[]): Head {
  const headers = new Map<string, string>();
  const forward: (readonly [string, string])[] = [];
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const name = (rawHeaders[i] ?? '').toLowerCase();
    const value = rawHeaders[i + 1] ?? '';
    if (headers.has(name) && SINGLE.has(name)) return refuse('bad_header');
    headers.set(name, name === 'connection' ? `${headers.get(name) ?? ''},${value}` : value);
    const passedOn = FORWARDED.get(name);
    if (passedOn === undefined) continue;
    if (!PRINTABLE.test(value)) {
      return refuse(name === 'idempotency-key' ? 'idempotency_key_invalid' : 'bad_header');
    }
    forward.push([passedOn, value]);
  }
  const problem = problemOf(headers);
  if (problem !== null) return refuse(problem);
  const head: RequestHead = {
    credential: readCredential(headers.get('authorization')),
    idempotencyKey: headers.get('idempotency-key') ?? null,
    attemptId: headers.get('x-attempt-id') ?? null,
    contentType: headers.get('content-type') ?? null,
    forward,
  };
  return { ok: true, head };
}

function problemOf(headers: ReadonlyMap<string, string>): HeadProblem | null {
  // Stripe would bill another account than the one whose cap is counted.
  if (headers.has('stripe-account') || headers.has('stripe-context')) {
    return 'account_header_not_allowed';
  }
  const stripped = (headers.get('connection') ?? '')
    .split(',')
    .map((one) => one.trim().toLowerCase());
  if (stripped.some((name) => NOT_OF_THE_CONNECTION.has(name))) return 'bad_header';
  // Node unpacks chunks; of any other coding it would show us the coded bytes.
  const coding = headers.get('transfer-encoding');
  if (coding !== undefined && coding.toLowerCase() !== 'chunked') return 'bad_header';
  if (coding !== undefined && headers.has('content-length')) return 'bad_header';
  const packed = headers.get('content-encoding');
  if (packed !== undefined && packed.toLowerCase() !== 'identity') return 'unsupported_media_type';
  const key = headers.get('idempotency-key');
  if (key !== undefined && !IDEMPOTENCY_KEY.test(key)) return 'idempotency_key_invalid';
  const attempt = headers.get('x-attempt-id');
  if (attempt !== undefined && attempt.length > MAX_ATTEMPT_ID_LENGTH) return 'bad_header';
  if (SECRET.test(key ?? '') || SECRET.test(attempt ?? '')) return 'bad_header';
  return null;
}

/** The token of Bearer, or the user name of Basic with no password, as `curl -u vk_…:` sends it. */
function readCredential(authorization: string | undefined): string | null {
  const [, scheme, token] =
    /^(bearer|basic) +([A-Za-z0-9._~+/=-]{1,1024})$/i.exec(authorization ?? '') ?? [];
  if (scheme === undefined || token === undefined) return null;
  if (scheme.toLowerCase() === 'bearer') return token;
  const decoded = Buffer.from(token, 'base64').toString('latin1');
  return decoded.endsWith(':') ? decoded.slice(0, -1) : null;
}

function refuse(code: HeadProblem): Head {
  return { ok: false, code };
}

/** Whether a Content-Type is that of a plain form. UTF-8 is the only charset that Stripe reads. Pure. */
export function isForm(contentType: string | null): boolean {
  return /^application\/x-www-form-urlencoded *(?:; *charset="?utf-8"? *)?$/i.test(
    contentType ?? '',
  );
}
