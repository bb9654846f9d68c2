import fc from 'fast-check';
import { hostileJson, hostileText, type SchemaValues } from './fuzz-values.ts';
import type { Operation } from './openapi.ts';

/** Whose token a request carries, or what it has in its place. */
export type Credential = 'its role' | 'one role less' | { readonly header: string | null };

/** A request as it goes on the wire. */
export interface FuzzRequest {
  readonly method: string;
  /** with its query, as it stands in the request line */
  readonly target: string;
  readonly credential: Credential;
  /** Content-Type; null: none */
  readonly type: string | null;
  /** null: none at all; text goes as UTF-8, with lone surrogates as U+FFFD */
  readonly body: string | Uint8Array | null;
  /** lines of Idempotency-Key, null for a good one of its own */
  readonly keys: readonly string[] | null;
}

interface Parts {
  readonly operation: Operation;
  readonly values: SchemaValues;
  /** bodies that are taken, for an operation whose parts must fit together */
  readonly bodies?: readonly object[];
}
type Member = readonly [name: string, json: string];

/** Requests of one operation: most are almost right, so that they come far. */
export function requestsOf(parts: Parts): fc.Arbitrary<FuzzRequest> {
  const { method } = parts.operation;
  const content = contentOf(parts);
  return fc
    .record({
      path: pathOf(parts),
      query: queryOf(parts),
      credential,
      content,
      keys: method === 'get' ? fc.constant(null) : keyLines,
    })
    .map(({ path, query, content: { type, body }, ...rest }) => ({
      ...rest,
      method: method.toUpperCase(),
      target: query === '' ? path : `${path}?${query}`,
      type,
      body,
    }));
}

function mostly<T>(usual: fc.Arbitrary<T>, weight: number, ...rare: readonly fc.Arbitrary<T>[]) {
  return fc.oneof(
    { weight, arbitrary: usual },
    ...rare.map((arbitrary) => ({ weight: 1, arbitrary })),
  );
}

const credential: fc.Arbitrary<Credential> = mostly<Credential>(
  fc.constant('its role'),
  14,
  fc.constant('one role less'),
  fc
    .constantFrom(
      null,
      '',
      'Bearer',
      'Bearer  ',
      'Bearer cot_',
      `Bearer cot_${'0'.repeat(16)}_${'0'.repeat(64)}`,
      'Basic b2xnYTpvbGdh',
      'Bearer \u00e9\u00ff',
      `Bearer ${'x'.repeat(4_000)}`,
      'Bearer a, Bearer b',
    )
    .map((header) => ({ header })),
);

const keyLines: fc.Arbitrary<readonly string[] | null> = mostly<readonly string[] | null>(
  fc.constant(null),
  14,
  fc.constantFrom<readonly string[]>(
    [],
    [''],
    [' '],
    ['""'],
    ['"half'],
    ['a,b'],
    ['"a";b=1'],
    ['same', 'same'],
    ['\u00e9'],
    ['k'.repeat(256)],
    ['__proto__'],
    ['"\\"quoted\\\\"'],
  ),
);

function parametersOf({ operation }: Parts, place: 'path' | 'query') {
  return (operation.operation.parameters ?? []).flatMap((parameter) =>
    'in' in parameter && parameter.in === place
      ? [{ name: parameter.name, schema: parameter.schema }]
      : [],
  );
}

/** Percent-encoded; what cannot be is as any client would send it. */
function encoded(value: unknown): string {
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  return encodeURIComponent(text.toWellFormed());
}

function pathOf(parts: Parts): fc.Arbitrary<string> {
  const named = parametersOf(parts, 'path').map(({ name, schema }) => {
    const good = parts.values.named(name, schema).map(encoded);
    const raw = fc.constantFrom('%', '%zz', '%c0%ae', '%00', '%2e%2e%2f', '..', 'a%2Fb', '%2525');
    return [name, mostly(good, 12, hostileText.map(encoded), raw)] as const;
  });
  return fc
    .record(Object.fromEntries(named))
    .map((values) =>
      parts.operation.path.replaceAll(/\{(\w+)\}/g, (_whole, name: string) => values[name] ?? ''),
    );
}

function queryOf(parts: Parts): fc.Arbitrary<string> {
  const named = parametersOf(parts, 'query').map(({ name, schema }) =>
    fc.option(
      mostly(parts.values.named(name, schema).map(encoded), 8, hostileText.map(encoded)).map(
        (value) => `${name}=${value}`,
      ),
      { freq: 2 },
    ),
  );
  const odd = fc.constantFrom(
    'x=1',
    '__proto__=1',
    'constructor[prototype]=1',
    'namespace=base&namespace=base',
    'limit[]=1',
    'limit=1e3',
    '%',
    '%00=%00',
    '&&==&',
    '?',
  );
  return fc
    .tuple(fc.tuple(...named), mostly<string | null>(fc.constant(null), 12, odd))
    .map(([known, more]) => [...known, more].filter((part) => part !== null).join('&'));
}

interface Content {
  readonly type: string | null;
  readonly body: string | Uint8Array | null;
}

const NO_CONTENT: Content = { type: null, body: null };

function contentOf({ operation, values, bodies: taken = [] }: Parts): fc.Arbitrary<Content> {
  const { requestBody } = operation.operation;
  const content = requestBody !== undefined && 'content' in requestBody ? requestBody.content : {};
  const [type = 'application/json'] = Object.keys(content);
  const any = values.of(content[type]?.schema);
  const allowed = taken.length === 0 ? any : fc.oneof(any, fc.constantFrom<unknown>(...taken));
  const bodies = type === 'text/csv' ? csvBodies : jsonBodies(allowed);
  const types = mostly<string | null>(
    fc.constant(type),
    14,
    fc.constantFrom(
      null,
      '',
      'text/plain',
      'text/csv',
      'application/json; charset=utf-16',
      'application/json;;',
      'APPLICATION/JSON',
      'multipart/form-data; boundary=x',
      'application/x-www-form-urlencoded',
      '*/*',
      'x'.repeat(3_000),
    ),
  );
  const some = fc.record({ type: types, body: bodies });
  const none = fc.constant(NO_CONTENT);
  return requestBody === undefined ? mostly<Content>(none, 10, some) : mostly(some, 20, none);
}

const bytes = fc.uint8Array({ maxLength: 60 });

function jsonBodies(allowed: fc.Arbitrary<unknown>): fc.Arbitrary<string | Uint8Array> {
  const members = allowed.map((value) => membersOf(value));
  const at = fc.nat();
  const changed = (change: (members: readonly Member[], at: number, json: string) => string) =>
    fc.tuple(members, at, hostileJson).map(([all, n, json]) => change(all, n, json));
  return mostly<string | Uint8Array>(
    members.map(textOf),
    14,
    changed((all, n, json) => textOf(withMember(all, n, json))),
    fc
      .tuple(members, at, hostileText)
      .map(([all, n, text]) => textOf(withMember(all, n, JSON.stringify(text)))),
    fc
      .tuple(members, at, HALVES)
      .map(([all, n, text]) => textOf(withMember(all, n, JSON.stringify(text)))),
    changed((all, n) => textOf(all.filter((_one, i) => i !== n % all.length))),
    changed((all, n, json) => textOf([...all, [EXTRA[n % EXTRA.length] ?? '', json]])),
    // The same member twice: the last one counts, or none.
    changed((all, n, json) => textOf([...all, [all[n % all.length]?.[0] ?? '', json]])),
    changed((all, n) => textOf(all).slice(0, n % textOf(all).length)),
    hostileJson,
    bytes,
    fc.constantFrom('', '\ufeff{}', '{', '{"reason":"x"', '{}{}', "{'reason':1}", '\u0000'),
  );
}

/** Texts that look like any other, and are none to whom it is handed on. */
const HALVES = fc.constantFrom('a \ud800', '\udc00 b', 'a\u0000b', 'x'.repeat(500));

function withMember(all: readonly Member[], n: number, json: string): readonly Member[] {
  return all.map((one, i) => (i === n % all.length ? [one[0], json] : one));
}

const EXTRA = ['__proto__', 'constructor', 'toString', 'then', 'amount', '', '\u0000'];

function membersOf(value: unknown): readonly Member[] {
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).map(([name, part]) => [name, JSON.stringify(part)]);
}

function textOf(members: readonly Member[]): string {
  return `{${members.map(([name, json]) => `${JSON.stringify(name)}:${json}`).join(',')}}`;
}

const HEAD = 'customer_id,stripe_customer_id,payment_method_id,amount,currency';
const cell = mostly(
  fc.constantFrom('c1', 'cus_c1', 'pm_card_visa', '1500', 'usd', ''),
  6,
  hostileText,
  fc.constantFrom('"', '"a""b"', '-1', '1e3', '=1+1', '\r', '\n'),
);
const csvBodies = mostly<string | Uint8Array>(
  fc
    .array(fc.nat({ max: 9 }), { maxLength: 4 })
    .map((ids) => [HEAD, ...ids.map((id) => `f${id},cus_f${id},pm_card_visa,1500,usd`)].join('\n')),
  4,
  fc
    .array(fc.array(cell, { maxLength: 7 }), { maxLength: 4 })
    .map((rows) => [HEAD, ...rows.map((row) => row.join(','))].join('\n')),
  hostileText,
  bytes,
);
