import type { IncomingHttpHeaders } from 'node:http';
import { setTimeout as timeout } from 'node:timers/promises';
import { authenticate } from './auth.ts';
import type { Call, Twist } from './call.ts';
import type { VirtualClock } from './clock.ts';
import {
  ApiError,
  gatewayError,
  keyInUse,
  lockTimeout,
  rateLimited,
  serverError,
} from './errors.ts';
import type { Faults } from './faults.ts';
import { declineFor } from './fixtures.ts';
import { readKey } from './idempotency.ts';
import type { Fingerprint, IdempotencyStore } from './idempotency.ts';
import type { FaultRule } from './options.ts';
import { Params } from './params.ts';
import type { RateLimiter } from './rate-limit.ts';
import { errorReply, jsonReply } from './reply.ts';
import type { Reply } from './reply.ts';
import { matchRoute } from './router.ts';
import type { Match } from './router.ts';
import type { Store, Tenant } from './store.ts';
import type { WebhookSender } from './webhooks.ts';

/** The API version of events nobody's request caused, and of requests that name none. */
export const API_VERSION = '2026-10-28.endive';
const DEFAULT_LATE_MS = 5000;
const DEFAULT_SLOW_MS = 60_000;

/** Waits without keeping the process alive: who closes the simulator need not sit out a slow reply. */
function sleep(ms: number): Promise<void> {
  return timeout(ms, undefined, { ref: false });
}

/** One physical request whose body has been read. */
export interface Incoming {
  readonly method: string;
  readonly path: string;
  readonly query: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
  readonly requestId: string;
}

/** What to do on the wire, and what the log is to say. `reply` null: the connection is cut. */
export interface Outcome {
  readonly reply: Reply | null;
  readonly wire: 'whole' | 'truncated' | 'html' | 'double';
  readonly replayed: boolean;
  readonly executed: boolean;
  readonly rule: FaultRule | null;
}

export interface PipelineDeps {
  readonly store: Store;
  readonly clock: VirtualClock;
  /** Takes the steps whose time has come, and makes them durable. */
  readonly tick: () => void;
  readonly keys: IdempotencyStore;
  readonly limiter: RateLimiter;
  readonly faults: Faults;
  readonly webhooks: WebhookSender;
  readonly latencyMs: number;
  readonly strictCustomers: boolean;
  readonly searchLagMs: number;
}

/** What is learnt about a request on its way. */
interface Trace {
  key: string | null;
  replayed: boolean;
  executed: boolean;
  /** The fault took effect inside the execution. */
  faultUsed: boolean;
}

/**
 * One API request, in Stripe's order: authentication, rate limit, key length, key look-up (endpoint, parameters, in
 * flight), validation, execution. Faults stand around it, decided anew for each physical request.
 */
export class Pipeline {
  readonly #deps: PipelineDeps;
  readonly #locked = new Set<string>();

  constructor(deps: PipelineDeps) {
    this.#deps = deps;
  }

  async handle(incoming: Incoming): Promise<Outcome> {
    const { faults, tick, latencyMs } = this.#deps;
    tick();
    const match = matchRoute(incoming.method, incoming.path);
    const endpoint = match?.route.endpoint ?? 'unknown';
    const metadata = () => this.#metadataOf(incoming, match);
    const rule = faults.pick({ endpoint, phase: 'body', metadata }) ?? null;
    const trace: Trace = {
      key: null,
      replayed: false,
      executed: false,
      faultUsed: false,
    };
    const done = (reply: Reply | null, wire: Outcome['wire'] = 'whole'): Outcome => ({
      reply,
      wire,
      rule,
      replayed: trace.replayed,
      executed: trace.executed,
    });
    if (rule !== null) {
      trace.key = incoming.headers['idempotency-key']?.toString() ?? null;
      const early = replyBefore(rule, trace.key);
      if (early !== undefined) {
        if (latencyMs > 0) await sleep(latencyMs);
        return done(early);
      }
    }
    let reply: Reply;
    try {
      reply = await this.#serve(incoming, { match, rule, trace });
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      reply = errorReply(error);
    }
    reply = withCommonHeaders(reply, incoming, trace);
    const { reply: sent, wire } = await this.#spoil(reply, rule, trace);
    if (rule !== null && !trace.faultUsed) {
      faults.undo(rule);
      return { ...done(sent, wire), rule: null };
    }
    return done(sent, wire);
  }

  async #serve(
    incoming: Incoming,
    about: { match: Match | undefined; rule: FaultRule | null; trace: Trace },
  ): Promise<Reply> {
    const { match, rule, trace } = about;
    const { store, limiter, keys } = this.#deps;
    const { account, livemode } = authenticate(incoming.headers, incoming.method);
    const tenant = store.tenant(account, livemode);
    if (match === undefined) {
      throw new ApiError(404, {
        type: 'invalid_request_error',
        message: `Unrecognized request URL (${incoming.method}: ${incoming.path}).`,
      });
    }
    const refusal = limiter.refusal(tenant.id, match.route.endpoint);
    if (refusal !== undefined) throw rateLimited(refusal);
    const isPost = incoming.method === 'POST';
    // GET and DELETE ignore keys.
    const key = isPost ? readKey(incoming.headers['idempotency-key']?.toString()) : null;
    trace.key = key;
    const params = new Params(isPost ? incoming.body.toString('utf8') : incoming.query);
    const fingerprint = {
      path: `${incoming.method} ${incoming.path}`,
      params: params.fingerprint(),
    };
    const saved = key === null ? undefined : keys.lookUp(tenant, key, fingerprint);
    if (saved !== undefined) {
      trace.replayed = true;
      await this.#wait(rule, trace);
      const headers = { 'Original-Request': saved.requestId, 'Idempotent-Replayed': 'true' };
      return {
        status: saved.status,
        body: saved.body,
        headers: saved.status >= 500 ? { ...headers, 'Stripe-Should-Retry': 'false' } : headers,
      };
    }
    const call = this.#call(incoming, { tenant, params, key, id: match.id, rule });
    const execute = match.route.prepare(call);
    const lock = match.route.locks === true ? `${tenant.id} ${match.id}` : null;
    return this.#execute({ call, execute, lock, key, fingerprint, rule, trace });
  }

  async #execute(work: {
    call: Call;
    execute: () => object;
    lock: string | null;
    key: string | null;
    fingerprint: Fingerprint;
    rule: FaultRule | null;
    trace: Trace;
  }): Promise<Reply> {
    const { call, key, lock, rule, trace } = work;
    const { keys, store, webhooks, tick } = this.#deps;
    if (lock !== null && this.#locked.has(lock)) throw lockTimeout();
    if (key !== null) keys.begin(call.tenant, key, work.fingerprint);
    if (lock !== null) this.#locked.add(lock);
    try {
      await this.#wait(rule, trace);
      tick();
      const reply = this.#result(work);
      trace.executed = true;
      if (key !== null) {
        const requestId = call.origin.requestId ?? '';
        keys.finish(call.tenant, key, { status: reply.status, body: reply.body, requestId });
      }
      await webhooks.take(store.commit());
      if (key === null) return reply;
      return {
        ...reply,
        headers: { 'Original-Request': call.origin.requestId ?? '', ...reply.headers },
      };
    } finally {
      if (lock !== null) this.#locked.delete(lock);
      if (key !== null && !trace.executed) keys.abandon(call.tenant, key);
    }
  }

  /** Runs the execution, or what a fault makes of it; whatever comes out is what the key saves. */
  #result(work: {
    call: Call;
    execute: () => object;
    rule: FaultRule | null;
    trace: Trace;
  }): Reply {
    const { call, rule, trace } = work;
    const kind = rule?.kind;
    const retry = rule === null ? {} : retryHeader(rule);
    if (kind === 'fail500') {
      trace.faultUsed = true;
      return errorReply(serverError(retry));
    }
    let reply: Reply;
    try {
      reply = jsonReply(200, work.execute());
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      reply = errorReply(error);
    }
    if (call.twist.used && (kind === 'declineOnce' || kind === 'lateSuccess500')) {
      trace.faultUsed = true;
      return { ...reply, headers: { ...reply.headers, ...retry } };
    }
    // A late success that had nothing to delay is a 500 after the effect.
    if (kind === 'actThen500' || kind === 'lateSuccess500') {
      trace.faultUsed = true;
      return errorReply(serverError(retry));
    }
    return reply;
  }

  /** Faults of the reply's way back: they need a reply that came from an execution, now or earlier. */
  async #spoil(
    reply: Reply,
    rule: FaultRule | null,
    trace: Trace,
  ): Promise<{ reply: Reply | null; wire: Outcome['wire'] }> {
    if (rule === null || !(trace.executed || trace.replayed)) return { reply, wire: 'whole' };
    const used = (sent: Reply | null, wire: Outcome['wire'] = 'whole') => {
      trace.faultUsed = true;
      return { reply: sent, wire };
    };
    const { kind } = rule;
    if (kind === 'actThenDrop') {
      if (rule.delayMs !== undefined) await sleep(rule.delayMs);
      return used(null);
    }
    if (kind === 'truncate') return used(reply, 'truncated');
    if (kind === 'wrongContentType') return used(reply, 'html');
    if (kind === 'doubleReply') return used(reply, 'double');
    const gateway = gatewayReply(rule);
    return gateway === undefined ? { reply, wire: 'whole' } : used(gateway);
  }

  async #wait(rule: FaultRule | null, trace: Trace): Promise<void> {
    const slow = rule?.kind === 'slow' ? (rule.delayMs ?? DEFAULT_SLOW_MS) : 0;
    if (slow > 0) trace.faultUsed = true;
    const total = slow + this.#deps.latencyMs;
    if (total > 0) await sleep(total);
  }

  #call(
    incoming: Incoming,
    about: {
      tenant: Tenant;
      params: Params;
      key: string | null;
      id: string;
      rule: FaultRule | null;
    },
  ): Call {
    const { tenant, params, key, id, rule } = about;
    const version = incoming.headers['stripe-version'];
    const apiVersion = typeof version === 'string' ? version : API_VERSION;
    return {
      store: this.#deps.store,
      clock: this.#deps.clock,
      strictCustomers: this.#deps.strictCustomers,
      searchLagMs: this.#deps.searchLagMs,
      tenant,
      params,
      id,
      origin: { requestId: incoming.requestId, idempotencyKey: key, apiVersion },
      twist: twistOf(rule),
    };
  }

  #metadataOf(incoming: Incoming, match: Match | undefined): Readonly<Record<string, string>> {
    try {
      const { account, livemode } = authenticate(incoming.headers, incoming.method);
      const intent = this.#deps.store.tenant(account, livemode).intents.get(match?.id ?? '');
      const own = new Params(incoming.body.toString('utf8')).entries('metadata');
      return { ...intent?.metadata, ...Object.fromEntries(own) };
    } catch (error) {
      // A request that will be refused anyway has no metadata to match.
      if (error instanceof ApiError) return {};
      throw error;
    }
  }
}

function twistOf(rule: FaultRule | null): Twist {
  const late = rule?.kind === 'lateSuccess500' ? (rule.delayMs ?? DEFAULT_LATE_MS) : null;
  const decline =
    rule?.kind === 'declineOnce' ? declineFor(rule.declineCode ?? 'generic_decline') : null;
  return { lateMs: late, decline, used: false };
}

/** Faults before the API has seen anything: nothing executes, nothing is saved. */
function replyBefore(rule: FaultRule, key: string | null): Reply | null | undefined {
  const retry = retryHeader(rule);
  if (rule.kind === 'refuse' || rule.kind === 'resetBefore') return null;
  if (rule.kind === 'status409') return errorReply(keyInUse(key ?? undefined, retry));
  if (rule.kind === 'status429') {
    const { reason = 'endpoint-rate' } = rule;
    return errorReply(reason === 'lock_timeout' ? lockTimeout(retry) : rateLimited(reason, retry));
  }
  return rule.act === true ? undefined : gatewayReply(rule);
}

function gatewayReply(rule: FaultRule): Reply | undefined {
  const status = /^status(50[234])$/.exec(rule.kind)?.[1];
  return status === undefined
    ? undefined
    : errorReply(gatewayError(Number(status), retryHeader(rule)));
}

function retryHeader(rule: FaultRule): Readonly<Record<string, string>> {
  return rule.shouldRetry === undefined ? {} : { 'Stripe-Should-Retry': String(rule.shouldRetry) };
}

function withCommonHeaders(reply: Reply, incoming: Incoming, trace: Trace): Reply {
  const version = incoming.headers['stripe-version'];
  return {
    ...reply,
    headers: {
      'Stripe-Version': typeof version === 'string' ? version : API_VERSION,
      ...(trace.key === null ? {} : { 'Idempotency-Key': trace.key }),
      ...reply.headers,
    },
  };
}
