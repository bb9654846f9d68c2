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
import { answerAgain, finalState, headersToStore } from './replay.ts';
import type { ClaimAnswer, RecordId, StoredResponse, Takeover } from './store.ts';

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

/** Methods that change nothing (RFC 9110, 9.2.1): they pass, with a key or without. */
const SAFE = new Set(['GET', 'HEAD', 'OPTIONS', 'TRACE']);
const RETRY_IN_FLIGHT_S = 1;
const RETRY_STORE_S = 2;
const NO_FINGERPRINT = Buffer.alloc(0);
const IN_USE: Problem = {
  status: 409,
  code: 'idempotency-key-in-use',
  detail:
    'Send the same request with the same key again after a while: it is answered with what the first one comes to.',
};
const PRINCIPAL_MAX_LENGTH = 255;

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
    const route = routeOf(request);
    if (route === false || SAFE.has(request.method) || request.is404) return true;
    const reading = readKey(linesOf(request));
    switch (reading.kind) {
      case 'key':
        request[PASSAGE] = {
          key: reading.key,
          body: body(),
          held: null,
          began: false,
          answering: false,
          settled: false,
          tap: null,
          fingerprint: NO_FINGERPRINT,
          untyped: false,
        };
        return true;
      case 'missing':
        if (route.required === false) return true;
        this.#refuse(reply, 'refusedMissing', {
          status: 400,
          code: 'idempotency-key-missing',
          detail: `Send ${request.method} with an Idempotency-Key header: a value of your own for this one action, for example a UUID, and the same one again when you retry it.`,
        });
        return false;
      case 'malformed':
        this.#refuse(reply, 'refusedMalformed', {
          status: 400,
          code: 'idempotency-key-malformed',
          detail: `The Idempotency-Key header ${reading.problem}. Send one value of 1 to 255 printable ASCII characters, bare or as a quoted string.`,
        });
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

    const id: RecordId = { principal, endpoint: this.#endpointOf(request), key: passage.key };
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
      // It may have been taken all the same; the lease of a key that nobody holds would block it for minutes.
      void this.keeper.abandon({ ...id, holder });
      reply.header('Retry-After', String(RETRY_STORE_S));
      return this.#refuse(reply, 'storeUnavailable', {
        status: 503,
        code: 'idempotency-store-unavailable',
        detail: 'Nothing was done. Send the same request with the same key again later.',
      });
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
    if (!passage.began || this.settings.neverStored.has(reply.statusCode)) {
      passage.settled = true;
      passage.tap?.pass();
      this.settings.onEvent('abandoned', request);
      await this.keeper.abandon(passage.held.hold);
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
      body: keepsBody(request) ? body : null,
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
    if (!answer.brokeOff && this.settings.neverStored.has(answer.status)) {
      this.settings.onEvent('abandoned', request);
      void this.keeper.abandon(passage.held.hold);
      return;
    }
    const status = Math.max(200, answer.status);
    void this.#store(request, passage.held, {
      state: finalState(status),
      status,
      headers: headersToStore(this.settings, answer.headers),
      body: keepsBody(request) ? answer.body : null,
    });
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
        return this.#refuse(reply, 'refusedMismatch', {
          status: this.settings.mismatchStatus,
          code: 'idempotency-key-reused',
          detail:
            'The first request with this key had another method, path, query, content type or body. Send that one again for its answer, or this one with a new key.',
        });
      case 'inFlight':
        reply.header('Retry-After', String(RETRY_IN_FLIGHT_S));
        return this.#refuse(reply, 'refusedInFlight', IN_USE);
      case 'interrupted':
        return this.#refuse(reply, 'refusedInterrupted', {
          status: 409,
          code: 'idempotency-key-interrupted',
          detail:
            'The process that handled the first request is gone, and what it did is not known. It is not run again until somebody has looked. Do not send it with a new key.',
        });
    }
  }

  #fingerprint(request: FastifyRequest, passage: Passage): Problem | null {
    const { whole, tooLarge, bytes } = passage.body();
    const { maxRequestBytes } = this.settings;
    if (tooLarge)
      return {
        status: 413,
        code: 'body-too-large',
        detail: `At most ${maxRequestBytes} bytes are taken with a key.`,
      };
    const contentType = request.headers['content-type'] ?? '';
    const isMultipart = contentType.trim().toLowerCase().startsWith('multipart/');
    if (isMultipart || (!whole && hasBody(request)))
      return {
        status: 415,
        code: 'body-not-fingerprintable',
        detail:
          'Send a body that is read whole, such as JSON: the boundary of a multipart body differs from try to try, and a streamed one is not known before it is handled.',
      };
    passage.fingerprint = fingerprint(
      { method: request.method, url: request.raw.url ?? '', contentType, body: bytes },
      this.settings.fingerprint,
    );
    return null;
  }

  #endpointOf(request: FastifyRequest): string {
    if (this.settings.endpoint === 'shared') return '*';
    return `${request.method} ${request.routeOptions.url ?? ''}`;
  }

  #refuse(reply: FastifyReply, event: IdempotencyEvent, problem: Problem): FastifyReply {
    this.settings.onEvent(event, reply.request);
    return sendProblem(reply, this.settings.policyUrl, problem);
  }
}

/** Lines of one header are joined by commas; what has none is one line, and needs no second look. */
function linesOf({ raw }: FastifyRequest): readonly string[] | undefined {
  const joined = raw.headers['idempotency-key'];
  if (typeof joined === 'string' && !joined.includes(',')) return [joined];
  return raw.headersDistinct['idempotency-key'];
}

function routeOf(request: FastifyRequest): false | RouteIdempotency {
  return request.routeOptions.config.idempotency ?? {};
}

function takeoverOf(request: FastifyRequest): Takeover {
  const route = routeOf(request);
  return route === false ? 'conflict' : (route.takeover ?? 'conflict');
}

function keepsBody(request: FastifyRequest): boolean {
  const route = routeOf(request);
  return route === false || route.storeBody !== false;
}

function hasBody({ headers }: FastifyRequest): boolean {
  const length = headers['content-length'];
  return headers['transfer-encoding'] !== undefined || (length !== undefined && length !== '0');
}
