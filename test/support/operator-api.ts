import { randomUUID } from 'node:crypto';
import type { Kysely } from 'kysely';
import pino from 'pino';
import { z } from 'zod';
import { hashApiToken, newApiToken } from '../../src/api-token.ts';
import { insertApiToken, type ApiRole } from '../../src/db/api-tokens.ts';
import { queryable } from '../../src/db/queryable.ts';
import type { DB } from '../../src/db/schema.ts';
import type { ApiOptions } from '../../src/http/api/register-api.ts';
import { buildApp } from '../../src/http/build-app.ts';
import { PostgresIdempotencyStore } from '../../src/http/idempotency/index.ts';
import { httpMetrics } from '../../src/http/metrics.ts';
import { portOf } from '../../src/listening.ts';

/** An answer of the API. */
interface Answered {
  readonly status: number;
  readonly headers: Headers;
  /** parsed when it is JSON, else the text */
  readonly body: unknown;
}

export interface Request {
  /** whose token it carries: the operator `olga` unless said */
  readonly as?: Caller;
  readonly body?: unknown;
  /** the body as it is, of this type */
  readonly raw?: { readonly type: string; readonly bytes: string | Buffer };
  /** a new one unless said */
  readonly key?: string;
}

interface Caller {
  readonly name: string;
  readonly role: ApiRole;
}

export const VERA: Caller = { name: 'vera', role: 'viewer' };
export const OLGA: Caller = { name: 'olga', role: 'operator' };
export const PAUL: Caller = { name: 'paul', role: 'approver' };
export const ADA: Caller = { name: 'ada', role: 'admin' };

/** The operator API over HTTP, on a port of its own. */
export interface OperatorApi {
  readonly url: string;
  call(method: string, path: string, request?: Request): Promise<Answered>;
  /** A token of this caller, for what `call` does not do. */
  tokenOf(caller: Caller): Promise<string>;
  close(): Promise<void>;
}

type OperatorApiParts = Partial<Omit<ApiOptions, 'idempotency'>> & {
  /** how long an answer is given again */
  readonly retentionMs?: number;
};

/** Starts the application with the API in it. What a test does not give is away: Temporal, Stripe, the vault. */
export async function startOperatorApi(
  db: Kysely<DB>,
  { retentionMs, ...parts }: OperatorApiParts = {},
): Promise<OperatorApi> {
  const log = pino({ level: 'silent' });
  const account = parts.account ?? 'acct_test';
  const api: ApiOptions = {
    db,
    log,
    account,
    mode: 'test',
    temporal: () => Promise.reject(new Error('Temporal is away')),
    gatewayOf: () => {
      throw new Error('Stripe is away');
    },
    vaultAdmin: null,
    temporalUiUrl: 'http://temporal.test:8233',
    temporalNamespace: 'default',
    zone: 'UTC',
    resolveApprovers: 1,
    now: () => new Date(),
    idempotency: {
      store: new PostgresIdempotencyStore(queryable(db)),
      ...(retentionMs === undefined ? {} : { retentionMs }),
    },
    metrics: httpMetrics(),
    ...parts,
  };
  const app = buildApp({
    db,
    log,
    stripeWebhook: {
      db,
      read: null,
      account,
      liveMode: false,
      apiVersion: 'none',
      onStored: () => {},
    },
    api,
  });
  await app.listen({ host: '127.0.0.1', port: 0 });
  const url = `http://127.0.0.1:${portOf(app.server.address())}`;
  const tokens = new Map<string, Promise<string>>();
  const tokenOf = (caller: Caller): Promise<string> => {
    const known = tokens.get(caller.name) ?? makeToken(db, caller);
    tokens.set(caller.name, known);
    return known;
  };
  return {
    url,
    tokenOf,
    call: async (method, path, request = {}) =>
      send(new URL(path, url), method, { ...request, token: await tokenOf(request.as ?? OLGA) }),
    close: () => app.close(),
  };
}

async function makeToken(db: Kysely<DB>, { name, role }: Caller): Promise<string> {
  const { tokenId, token } = newApiToken();
  const secretHash = hashApiToken(token);
  await insertApiToken(db, { tokenId, secretHash, name, role, lifeDays: 1, operator: 'test' });
  return token;
}

async function send(
  url: URL,
  method: string,
  request: Request & { readonly token: string },
): Promise<Answered> {
  const { token, body, raw, key = randomUUID() } = request;
  const type = raw?.type ?? (body === undefined ? null : 'application/json');
  const answer = await fetch(url, {
    method,
    headers: {
      authorization: `Bearer ${token}`,
      ...(method === 'GET' ? {} : { 'idempotency-key': key }),
      ...(type === null ? {} : { 'content-type': type }),
    },
    ...(raw === undefined ? {} : { body: raw.bytes }),
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await answer.text();
  const isJson = text !== '' && (answer.headers.get('content-type') ?? '').includes('json');
  return {
    status: answer.status,
    headers: answer.headers,
    body: isJson ? JSON.parse(text) : text,
  };
}

const listSchema = z.object({
  data: z.array(z.looseObject({})),
  next: z.string().nullable(),
});

/** Every row of a list, page by page; `between` runs before each page but the first. */
export async function readAllPages(
  api: OperatorApi,
  path: string,
  between: () => Promise<void> = async () => {},
): Promise<readonly Record<string, unknown>[]> {
  const rows: Record<string, unknown>[] = [];
  let after: string | null = null;
  for (let pages = 0; pages < 1_000; pages += 1) {
    const url = new URL(path, api.url);
    if (after !== null) url.searchParams.set('after', after);
    const answer = await api.call('GET', `${url.pathname}${url.search}`);
    const page = listSchema.parse(answer.body);
    rows.push(...page.data);
    after = page.next;
    if (after === null) return rows;
    await between();
  }
  throw new Error(`${path} has no end`);
}
