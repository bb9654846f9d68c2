import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { hashApiToken, isToken, tokenIdOf } from '../../api-token.ts';
import { findApiToken, noteTokenUse, type ApiRole, type TokenCheck } from '../../db/api-tokens.ts';
import type { Db } from '../../db/database.ts';
import type { Log } from '../../log.ts';
import { problem } from './problems.ts';
import type { ProblemCode } from './problem-table.ts';

export type { ApiRole };

/** Who sends a request, as their token says. */
export interface Caller {
  readonly tokenId: string;
  /** a person or a system: the actor in audit_log and the tenant of Idempotency-Keys; it outlives its token */
  readonly name: string;
  readonly role: ApiRole;
}

declare module 'fastify' {
  interface FastifyRequest {
    /** null until the token has been checked */
    caller: Caller | null;
  }
  interface FastifyContextConfig {
    /** the lowest role that may call the route; a route of the API without one keeps the server from starting */
    readonly access?: ApiRole;
    /** what the route answers besides the problems that every route has, for the OpenAPI document */
    readonly problems?: readonly ProblemCode[];
  }
}

/** Each may do what the ones before it may. */
export const ROLES = ['viewer', 'operator', 'approver', 'admin'] as const satisfies ApiRole[];

/** Whether a role is as high as the one that is needed. */
function mayCall(role: ApiRole, needed: ApiRole): boolean {
  return ROLES.indexOf(role) >= ROLES.indexOf(needed);
}

/** Who sent the request. Throws in a route without {@link authenticate} before it. */
export function callerOf(request: { readonly caller: Caller | null }): Caller {
  if (request.caller === null) throw new Error('this route was reached without a token');
  return request.caller;
}

export interface AuthDeps {
  readonly db: Db;
  readonly log: Log;
  /** different wrong tokens that one address may send within a minute */
  readonly failuresPerMinute: number;
}

/** Tokens that were good lately: whoever sends wrong ones from the same address does not shut them out. */
const REMEMBERED_TOKENS = 1_000;
const REMEMBERED_MS = 10 * 60_000;
const MINUTE_MS = 60_000;
/** Stands in where no token was found, so that the time is the same. */
const NO_HASH = Buffer.alloc(32);

/**
 * Checks the bearer token of every request of `app`, before its body is read; needs @fastify/rate-limit. A route without
 * `config.access` keeps the application from starting. Costs one read by primary key, and a write at most once a minute.
 */
export function authenticate(app: FastifyInstance, deps: AuthDeps): void {
  const failures = app.createRateLimit({ max: deps.failuresPerMinute, timeWindow: MINUTE_MS });
  const recent = new RecentTokens();
  const wrong = new RecentTokens();
  app.addHook('onRoute', ({ url, method, config }) => {
    if (config?.access === undefined)
      throw new Error(`${String(method)} ${url} says not who may call it: set config.access`);
  });
  app.addHook('onRequest', async (request, reply) => {
    const token = bearerOf(request);
    if (token === null) return unauthenticated(reply, 'token-missing');
    // Never good again. Not counted: a scraper whose token has expired must not shut out everybody behind its proxy.
    if (wrong.has(token)) return unauthenticated(reply, 'token-invalid');
    const tried = await failures(request, { increment: false });
    if (!tried.isAllowed && tried.remaining === 0 && !recent.has(token))
      return problem(reply, 'too-many-failures', {
        detail: 'wait before you try another token',
        retryAfterSeconds: tried.ttlInSeconds,
      });
    const found = await check(deps, token);
    if (found === 'databaseAway')
      return problem(reply, 'database-unavailable', 'the token cannot be looked up now');
    if (found === null) {
      await failures(request);
      recent.forget(token);
      wrong.remember(token);
      return unauthenticated(reply, 'token-invalid');
    }
    recent.remember(token);
    request.caller = found;
    return authorize(found, request, reply);
  });
}

function bearerOf({ headers }: FastifyRequest): string | null {
  return /^Bearer ([\x21-\x7E]{1,200})$/i.exec(headers.authorization ?? '')?.[1] ?? null;
}

function unauthenticated(reply: FastifyReply, code: 'token-missing' | 'token-invalid') {
  const error = code === 'token-invalid' ? ', error="invalid_token"' : '';
  reply.header('WWW-Authenticate', `Bearer realm="chargeonce"${error}`);
  return problem(reply, code, 'send Authorization: Bearer with a token of this server');
}

async function check(deps: AuthDeps, token: string): Promise<Caller | null | 'databaseAway'> {
  const tokenId = tokenIdOf(token);
  if (tokenId === null) return null;
  let found: TokenCheck | null;
  try {
    found = await findApiToken(deps.db, tokenId);
  } catch (error) {
    deps.log.error({ err: error }, 'a token could not be looked up');
    return 'databaseAway';
  }
  if (!isToken(token, found?.secretHash ?? NO_HASH) || found?.live !== true) return null;
  if (found.useIsOld)
    noteTokenUse(deps.db, tokenId).catch((error: unknown) =>
      deps.log.warn({ err: error, token: tokenId }, 'the use of a token was not noted'),
    );
  return { tokenId, name: found.name, role: found.role };
}

function authorize(caller: Caller, request: FastifyRequest, reply: FastifyReply) {
  // Whoever has a token may know that a path does not exist.
  if (request.is404) return;
  const { access } = request.routeOptions.config;
  if (access !== undefined && mayCall(caller.role, access)) return;
  const needed = access ?? 'unknown';
  return problem(
    reply,
    'role-insufficient',
    `this needs the role ${needed}, and the token of ${caller.name} has the role ${caller.role}`,
  );
}

/** Hashes of tokens that were good, or wrong, within the last minutes; the oldest go first. */
class RecentTokens {
  readonly #untilMs = new Map<string, number>();

  has(token: string): boolean {
    return (this.#untilMs.get(keyOf(token)) ?? 0) > performance.now();
  }

  remember(token: string): void {
    const key = keyOf(token);
    this.#untilMs.delete(key);
    this.#untilMs.set(key, performance.now() + REMEMBERED_MS);
    if (this.#untilMs.size <= REMEMBERED_TOKENS) return;
    const [oldest] = this.#untilMs.keys();
    if (oldest !== undefined) this.#untilMs.delete(oldest);
  }

  forget(token: string): void {
    this.#untilMs.delete(keyOf(token));
  }
}

function keyOf(token: string): string {
  return hashApiToken(token).toString('base64');
}
