import { randomUUID } from 'node:crypto';
import { Readable } from 'node:stream';
import type {
  FastifyInstance,
  FastifyReply,
  FastifyRequest,
  RouteHandlerMethod,
  RouteOptions,
} from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import { captureBody, type CapturedBody } from './body-capture.ts';
import { followHandler } from './course.ts';
import { fingerprint } from './fingerprint.ts';
import { Keeper, type Held } from './keeper.ts';
import { readKey } from './key.ts';
import {
  settingsOf,
  type IdempotencyEvent,
  type IdempotencyOptions,
  type RequestIdempotency,
  type RouteIdempotency,
  type Settings,
} from './options.ts';
import { collect } from './payload.ts';
import { sendProblem, writeProblem, type Problem } from './problem.ts';
import { RawTap, type RawAnswer } from './raw-tap.ts';
import {
  IN_USE,
  INTERRUPTED,
  malformed,
  missing,
  NOT_FINGERPRINTABLE,
  reused,
  STORE_UNAVAILABLE,
  tooLarge,
} from './refusals.ts';
import { answerAgain, finalState, headersToStore } from './replay.ts';
import {
  checkRoute,
  endpointOf,
  hasBody,
  keepingOf,
  keepsBody,
  keyLinesOf,
  rulesOf,
  takeoverOf,
} from './route-rules.ts';
import type { ClaimAnswer, RecordId, StoredResponse } from './store.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** the key that this request runs under; null for one that needs none */
    idempotency: RequestIdempotency | null;
    [PASSAGE]: Passage | null;
  }
  interface FastifyContextConfig {
    idempotency?: false | RouteIdempotency;
    [TELLS]?: true;
  }
}

const PASSAGE: unique symbol = Symbol('idempotency passage');
/** Of a route whose handler tells when it begins; one that came before the plugin does not. */
const TELLS: unique symbol = Symbol('idempotency handler');

/** Everything that is known of a request with a key, from its header to its stored response. */
interface Passage {
  readonly key: string;
  readonly body: () => CapturedBody;
  /** what this try holds; null before the claim and where the claim was refused */
  held: Held | null;
  /** the handler was called: from here on there may be effects */
  began: boolean;
  /** an answer is on its way to being stored */
  answering: boolean;
  /** the answer is being stored, or is another's: nothing more is to be done with it */
  settled: boolean;
  tap: RawTap | null;
  fingerprint: Buffer;
  /** the stored response that is sent has no content type */
  untyped: boolean;
}

const RETRY_IN_FLIGHT_S = 1;
const RETRY_STORE_S = 2;
const NO_FINGERPRINT = Buffer.alloc(0);
const PRINCIPAL_MAX_LENGTH = 255;
/** Longer than a statement may run whose caller has given up (src/db/database.ts: 10 s). */
const LATE_CLAIM_MS = 15_000;

function newPassage(key: string, body: () => CapturedBody): Passage {
  return {
    key,
    body,
    held: null,
    began: false,
    answering: false,
    settled: false,
    tap: null,
    fingerprint: NO_FINGERPRINT,
    untyped: false,
  };
}

/**
 * Fastify plugin: a request with an `Idempotency-Key` runs once, and its answer is given again. Register it after the
 * hooks that authenticate and before quotas and routes; every unsafe route registered later needs a key. The rules:
 * docs/idempotency.md.
 */
export const idempotency = fastifyPlugin(
  async (app: FastifyInstance, options: IdempotencyOptions): Promise<void> => {
    const layer = new Layer(settingsOf(options));
    app.decorateRequest('idempotency', null);
    app.decorateRequest(PASSAGE, null);
    app.addHook('onRoute', (route) => layer.wrap(route));
    // Not async: what listens to the body is there before it flows.
    // oxlint-disable-next-line max-params -- Fastify's signature
    app.addHook('preParsing', (request, reply, payload, done) => {
      if (layer.enter(request, reply, () => captureBody(payload, layer.settings.maxRequestBytes)))
        done(null, payload);
    });
    app.addHook('preHandler', async (request, reply) => layer.claim(request, reply));
    app.addHook('onSend', async (request, reply, payload) => layer.answer(request, reply, payload));
    app.addHook('onClose', () => layer.keeper.close());
  },
  { name: 'chargeonce-idempotency', fastify: '5.x' },
);

class Layer {
  readonly settings: Settings;
  readonly keeper: Keeper;

  constructor(settings: Settings) {
    this.settings = settings;
    this.keeper = new Keeper(settings);
  }

  /** Has a route's handler say when it begins and when it is over. */
  wrap(route: RouteOptions): void {
    const { handler } = route;
    checkRoute(route);
    const watch = (request: FastifyRequest, reply: FastifyReply, passage: Passage) =>
      this.#watch(request, reply, passage);
    const wrapped: RouteHandlerMethod = function wrapped(request, reply) {
      const passage = request[PASSAGE];
      if (passage?.held == null) return handler.call(this, request, reply);
      const follow = watch(request, reply, passage);
      const result: unknown = handler.call(this, request, reply);
      return result instanceof Promise ? follow(result) : result;
    };
    route.handler = wrapped;
    route.config = { ...route.config, [TELLS]: true };
  }

  /** Reads the key. False when the request was refused. */
  enter(request: FastifyRequest, reply: FastifyReply, body: () => () => CapturedBody): boolean {
    const rules = rulesOf(request);
    if (rules === null) return true;
    const reading = readKey(keyLinesOf(request));
    switch (reading.kind) {
      case 'key':
        request[PASSAGE] = newPassage(reading.key, body());
        return true;
      case 'missing':
        if (rules.required === false) return true;
        this.#refuse(reply, 'refusedMissing', missing(request.method));
        return false;
      case 'malformed':
        this.#refuse(reply, 'refusedMalformed', malformed(reading.problem));
        return false;
    }
  }

  /** Takes the key, or answers for whoever has it. */
  async claim(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply | undefined> {
    const passage = request[PASSAGE];
    if (passage === null) return undefined;
    const { settings } = this;
    if (request.routeOptions.config[TELLS] !== true)
      throw new TypeError(
        `the route ${request.routeOptions.url} was registered before the idempotency plugin`,
      );
    const principal = settings.principal(request);
    if (principal === null || principal === '')
      throw Object.assign(new Error('who calls is not known'), { statusCode: 401 });
    if (principal.length > PRINCIPAL_MAX_LENGTH)
      throw new RangeError(`principal: has more than ${PRINCIPAL_MAX_LENGTH} characters`);
    const problem = this.#fingerprint(request, passage);
    if (problem !== null) return sendProblem(reply, settings.policyUrl, problem);

    const id: RecordId = { principal, endpoint: endpointOf(request, settings), key: passage.key };
    const holder = randomUUID();
    let answer: ClaimAnswer;
    try {
      answer = await settings.store.claim({
        ...id,
        fingerprint: passage.fingerprint,
        holder,
        leaseMs: settings.leaseMs,
        takeover: takeoverOf(request),
      });
    } catch (error) {
      settings.onError(error);
      // It may have been taken all the same, or be taken yet by a statement that nobody waits for any more; the lease of a
      // key that nobody holds would block it for minutes.
      void this.keeper.abandon({ ...id, holder });
      setTimeout(() => void this.keeper.abandon({ ...id, holder }), LATE_CLAIM_MS).unref();
      reply.header('Retry-After', String(RETRY_STORE_S));
      return this.#refuse(reply, 'storeUnavailable', STORE_UNAVAILABLE);
    }
    if (answer.kind !== 'claimed') return this.#answerFor(passage, reply, answer);
    passage.held = this.keeper.keep({ ...id, holder, fence: answer.fence });
    request.idempotency = {
      key: passage.key,
      principal,
      fence: answer.fence,
      takenOver: answer.takenOver,
      signal: passage.held.lost.signal,
    };
    settings.onEvent(answer.takenOver ? 'takenOver' : 'executed', request);
    return undefined;
  }

  /** Stores what the handler answers, before it is sent. */
  async answer(request: FastifyRequest, reply: FastifyReply, payload: unknown): Promise<unknown> {
    const passage = request[PASSAGE];
    // The framework gives bytes a type; a first answer without one has none the second time either.
    if (passage?.untyped === true) reply.removeHeader('Content-Type');
    if (passage?.held == null || passage.settled) return payload;
    const keeping = passage.began ? keepingOf(request, this.settings, reply.statusCode) : 'free';
    if (keeping !== 'stored') {
      passage.settled = true;
      passage.tap?.pass();
      await this.#giveBack(request, passage.held, keeping);
      return payload;
    }
    passage.answering = true;
    // Throws where the answer breaks off: the framework then answers 500, and comes here again with it.
    const { body, outgoing } = await collect(reply, payload, this.settings.maxStoredBytes);
    if (passage.settled) return outgoing;
    passage.settled = true;
    passage.tap?.pass();
    const written = await this.#store(request, passage.held, {
      state: finalState(reply.statusCode),
      status: reply.statusCode,
      headers: headersToStore(this.settings, reply.getHeaders()),
      body: keepsBody(request, reply.statusCode) ? body : null,
    });
    if (written !== 'lost') return outgoing;
    // The rest of a large one, which nobody reads now.
    if (outgoing instanceof Readable) outgoing.destroy();
    return this.#answerOfTheOther(request, reply, passage.held);
  }

  /** What this try did is not what counts: whoever has the key, or has answered for it, is asked. */
  async #answerOfTheOther(request: FastifyRequest, reply: FastifyReply, held: Held) {
    const { settings } = this;
    const answer = await settings.store
      .look(held.hold, request[PASSAGE]?.fingerprint ?? NO_FINGERPRINT)
      .catch((error: unknown) => settings.onError(error));
    for (const name of Object.keys(reply.getHeaders())) reply.removeHeader(name);
    if (answer?.kind === 'stored') return answerAgain(settings, reply, answer.response);
    reply.header('Retry-After', String(RETRY_IN_FLIGHT_S));
    return writeProblem(reply, settings.policyUrl, IN_USE);
  }

  /** An answer that went past the framework: it is under way to the client already. */
  #sentRaw(request: FastifyRequest, passage: Passage, answer: RawAnswer): void {
    if (passage.held === null || passage.settled) return;
    passage.settled = true;
    const keeping = answer.brokeOff ? 'stored' : keepingOf(request, this.settings, answer.status);
    if (keeping !== 'stored') return void this.#giveBack(request, passage.held, keeping);
    const status = Math.max(200, answer.status);
    void this.#store(request, passage.held, {
      state: finalState(status),
      status,
      headers: headersToStore(this.settings, answer.headers),
      body: keepsBody(request, status) ? answer.body : null,
    });
  }

  async #giveBack(request: FastifyRequest, held: Held, keeping: 'free' | 'again'): Promise<void> {
    this.settings.onEvent('abandoned', request);
    this.keeper.drop(held);
    if (keeping === 'free') await this.keeper.abandon(held.hold);
    else await this.keeper.letGo(held.hold);
  }

  async #store(request: FastifyRequest, held: Held, response: StoredResponse) {
    const written = await this.keeper.complete(held, response);
    if (written === 'later') this.settings.onEvent('storedLater', request);
    if (written === 'lost') this.settings.onEvent('lateHolder', request);
    return written;
  }

  /** Sees to it that every handler that began comes to an end here. Answers what follows its promise. */
  #watch(request: FastifyRequest, reply: FastifyReply, passage: Passage) {
    passage.began = true;
    passage.tap = new RawTap(reply.raw, this.settings.maxStoredBytes, (answer) =>
      this.#sentRaw(request, passage, answer),
    );
    const giveUp = () => this.#giveUp(reply, passage);
    return followHandler(reply, passage, { patienceMs: this.settings.leaseMs, giveUp });
  }

  /**
   * Long after its client is gone something that is no promise has not answered: it still may, but its key's lease is
   * not kept up for it.
   */
  #giveUp(reply: FastifyReply, passage: Passage): void {
    if (passage.settled || passage.held === null) return;
    const raw = reply.sent || passage.tap?.began === true;
    if (raw && !passage.answering) passage.tap?.brokeOff();
    else this.keeper.drop(passage.held);
  }

  #answerFor(
    passage: Passage,
    reply: FastifyReply,
    answer: Exclude<ClaimAnswer, { kind: 'claimed' }>,
  ): FastifyReply {
    switch (answer.kind) {
      case 'stored':
        this.settings.onEvent('replayed', reply.request);
        passage.untyped =
          answer.response.body !== null &&
          !answer.response.headers.some(([name]) => name === 'content-type');
        return reply.send(answerAgain(this.settings, reply, answer.response));
      case 'mismatch':
        return this.#refuse(reply, 'refusedMismatch', reused(this.settings.mismatchStatus));
      case 'inFlight':
        reply.header('Retry-After', String(RETRY_IN_FLIGHT_S));
        return this.#refuse(reply, 'refusedInFlight', IN_USE);
      case 'interrupted':
        return this.#refuse(reply, 'refusedInterrupted', INTERRUPTED);
    }
  }

  #fingerprint(request: FastifyRequest, passage: Passage): Problem | null {
    const body = passage.body();
    if (body.tooLarge) return tooLarge(this.settings.maxRequestBytes);
    const contentType = request.headers['content-type'] ?? '';
    const isMultipart = contentType.trim().toLowerCase().startsWith('multipart/');
    if (isMultipart || (!body.whole && hasBody(request))) return NOT_FINGERPRINTABLE;
    passage.fingerprint = fingerprint(
      { method: request.method, url: request.raw.url ?? '', contentType, body: body.bytes },
      this.settings.fingerprint,
    );
    return null;
  }

  #refuse(reply: FastifyReply, event: IdempotencyEvent, problem: Problem): FastifyReply {
    this.settings.onEvent(event, reply.request);
    return sendProblem(reply, this.settings.policyUrl, problem);
  }
}
