import type { SpendKind } from '../db/vault-ledger.ts';

type Method = 'GET' | 'POST' | 'DELETE';

/** What an allowed request does to money, and the object that it names in its path. */
export interface MatchedEndpoint {
  readonly method: Method;
  /** the entry of allowed_endpoints that let it through */
  readonly endpoint: string;
  readonly kind: SpendKind;
  /** what kind of object the reply shows, where the reply is judged */
  readonly object: 'payment_intent' | 'charge' | null;
  /** `:id` of a path that names one PaymentIntent */
  readonly objectId: string | null;
}

interface Accounting {
  readonly method: Method;
  readonly path: readonly string[];
  readonly kind: SpendKind;
  readonly object: 'payment_intent' | 'charge' | null;
}

const INTENTS = '/v1/payment_intents';

/**
 * What each call that writes does to money. A call that is not here cannot be allowed, since the vault would not know
 * what to count: invoices, subscriptions and payouts, for instance, spend without an amount in their body.
 */
const ACCOUNTS: readonly Accounting[] = [
  account('POST', INTENTS, { kind: 'create', object: 'payment_intent' }),
  account('POST', `${INTENTS}/:id/confirm`, { kind: 'confirm', object: 'payment_intent' }),
  account('POST', `${INTENTS}/:id/cancel`, { kind: 'cancel', object: 'payment_intent' }),
  account('POST', `${INTENTS}/:id/capture`, { kind: 'capture', object: 'payment_intent' }),
  account('POST', '/v1/charges', { kind: 'create', object: 'charge' }),
  ...[
    `${INTENTS}/:id`,
    '/v1/charges/:id',
    '/v1/refunds',
    '/v1/refunds/:id',
    '/v1/refunds/:id/cancel',
    '/v1/customers',
    '/v1/customers/:id',
    '/v1/payment_methods',
    '/v1/payment_methods/:id',
    '/v1/payment_methods/:id/attach',
    '/v1/payment_methods/:id/detach',
    '/v1/setup_intents',
    '/v1/setup_intents/:id',
    '/v1/setup_intents/:id/confirm',
    '/v1/setup_intents/:id/cancel',
  ].map((path) => account('POST', path, { kind: 'plain', object: null })),
  account('DELETE', '/v1/customers/:id', { kind: 'plain', object: null }),
];

/** What a billing run calls, and nothing else. */
export const RUN_ENDPOINTS: readonly string[] = [
  `POST ${INTENTS}`,
  `POST ${INTENTS}/:id/confirm`,
  `GET ${INTENTS}`,
  `GET ${INTENTS}/:id`,
  'GET /v1/charges',
  'GET /v1/charges/:id',
  'GET /v1/events',
];

/** What may stand for `:id`. Search is a call of its own and needs an entry of its own. */
const ID = /^(?!search$)[A-Za-z0-9][A-Za-z0-9_-]{0,254}$/;
const INTENT_ID = /^pi_[A-Za-z0-9_]{1,250}$/;
const LITERAL = /^[A-Za-z0-9][A-Za-z0-9_-]{0,254}$/;
const PARAMETER = /^:[a-z][a-z_]{0,30}$/;
const ENTRY = /^([A-Z]+) (\/v1(?:\/[A-Za-z0-9_:-]+)+)$/;

export type ParsedEndpoint =
  | { readonly ok: true; readonly endpoint: string }
  | { readonly ok: false; readonly problem: string };

/**
 * Reads one entry of allowed_endpoints, `POST /v1/payment_intents/:id/confirm`, and gives it in the one spelling that
 * is stored. Pure. A problem is a text for whoever wrote the entry.
 */
export function parseEndpoint(text: string): ParsedEndpoint {
  const parsed = readEntry(text);
  if (typeof parsed === 'string') return { ok: false, problem: parsed };
  return { ok: true, endpoint: `${parsed.method} /${parsed.path.join('/')}` };
}

/** The entries of one key, read once. An entry that cannot be read allows nothing. */
export type Policy = readonly { readonly endpoint: string; readonly entry: Entry }[];

interface Entry {
  readonly method: Method;
  readonly path: readonly string[];
}

/** Makes a policy of stored entries. Pure. */
export function readPolicy(allowedEndpoints: readonly string[]): Policy {
  return allowedEndpoints.flatMap((endpoint) => {
    const entry = readEntry(endpoint);
    return typeof entry === 'string' ? [] : [{ endpoint, entry }];
  });
}

/** What a request is, if an entry names it; null otherwise: what nobody allowed is refused. Case-sensitive, pure. */
export function matchEndpoint(
  policy: Policy,
  method: string,
  path: string,
): MatchedEndpoint | null {
  const segments = path.split('/').slice(1);
  const allowed = policy.find(({ entry }) => entry.method === method && fits(entry.path, segments));
  if (allowed === undefined) return null;
  const { endpoint, entry } = allowed;
  const named = segments[1] === 'payment_intents' ? (segments[2] ?? '') : '';
  const objectId = INTENT_ID.test(named) ? named : null;
  if (entry.method === 'GET') {
    const object = objectId !== null && segments.length === 3 ? 'payment_intent' : null;
    return { method: 'GET', endpoint, kind: 'read', object, objectId };
  }
  const known = ACCOUNTS.find((one) => one.method === method && fits(one.path, segments));
  if (known === undefined) return null;
  return { method: known.method, endpoint, kind: known.kind, object: known.object, objectId };
}

function readEntry(text: string): Entry | string {
  const [, method, path] = ENTRY.exec(text) ?? [];
  if (method === undefined || path === undefined) {
    return 'write a method and a path, such as "POST /v1/payment_intents/:id/confirm"';
  }
  if (method !== 'GET' && method !== 'POST' && method !== 'DELETE') {
    return `the method is GET, POST or DELETE, not ${method}`;
  }
  const segments = path.split('/').slice(1);
  // The collection decides what a call means, so it cannot be left open.
  const wrong = segments
    .slice(1)
    .find((one, i) => !LITERAL.test(one) && !(i > 0 && PARAMETER.test(one)));
  if (wrong !== undefined) return `${JSON.stringify(wrong)} is neither a plain segment nor :id`;
  const entry = {
    method,
    path: segments.map((one) => (one.startsWith(':') ? ':id' : one)),
  } as const;
  if (method !== 'GET' && !ACCOUNTS.some((known) => covers(known, entry))) {
    return `the vault cannot cap ${method} /${entry.path.join('/')}: it does not know what that call spends`;
  }
  return entry;
}

/** Whether every request that the entry lets through is one of this account. */
function covers(known: Accounting, entry: Entry): boolean {
  return (
    known.method === entry.method &&
    known.path.length === entry.path.length &&
    known.path.every((part, i) => {
      const given = entry.path[i] ?? '';
      return part === ':id' ? given === ':id' || idOf(known.path).test(given) : part === given;
    })
  );
}

function fits(template: readonly string[], segments: readonly string[]): boolean {
  return (
    template.length === segments.length &&
    template.every((part, i) => {
      const given = segments[i] ?? '';
      return part === ':id' ? idOf(template).test(given) : part === given;
    })
  );
}

function idOf(template: readonly string[]): RegExp {
  return template[1] === 'payment_intents' ? INTENT_ID : ID;
}

function account(
  method: Method,
  path: string,
  { kind, object }: Pick<Accounting, 'kind' | 'object'>,
): Accounting {
  return { method, path: path.split('/').slice(1), kind, object };
}
