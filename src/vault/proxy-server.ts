import { once } from 'node:events';
import http, { type IncomingMessage, type ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { portOf, urlOf } from '../listening.ts';
import type { Answer } from './answer.ts';
import type { OnVaultEvent } from './events.ts';
import type { Forwarder } from './forward.ts';
import { NO_FACTS } from './request-facts.ts';
import { refusalOf, type RefusalCode } from './refusal.ts';

/** What a client may take of this process. Tests make them smaller. */
export interface ProxyLimits {
  readonly headersTimeoutMs: number;
  /** the whole request, body included */
  readonly requestTimeoutMs: number;
  /** for a client that does not take its answer */
  readonly answerTimeoutMs: number;
  readonly keepAliveTimeoutMs: number;
  readonly maxBodyBytes: number;
  readonly maxConnections: number;
  /** then the client connects anew, so that no connection lives for ever */
  readonly maxRequestsPerSocket: number;
}

/** The body limit is far above any form of Stripe's; a run holds some hundred connections. */
const PROXY_LIMITS: ProxyLimits = {
  headersTimeoutMs: 10_000,
  requestTimeoutMs: 30_000,
  answerTimeoutMs: 30_000,
  keepAliveTimeoutMs: 65_000,
  maxBodyBytes: 256 * 1024,
  maxConnections: 1_024,
  maxRequestsPerSocket: 100_000,
};

export interface ProxyOptions {
  readonly host: string;
  /** 0: any free port */
  readonly port: number;
  readonly forwarder: Forwarder;
  readonly onEvent: OnVaultEvent;
  readonly limits?: Partial<ProxyLimits>;
}

export interface Proxy {
  readonly url: string;
  readonly port: number;
  /** Takes no new requests and lets those in flight finish, for at most so long. Twice: the second waits as well. */
  close(drainMs: number): Promise<void>;
}

/** How long a refused client may go on sending a body that nobody reads, before it is cut. */
const LINGER_MS = 2_000;
const MAX_HEADER_BYTES = 16 * 1024;
/** Idle, half-sent and overdue connections are looked for this often. */
const CHECK_EVERY_MS = 1_000;

/**
 * Stripe's API for clients of the vault, on node:http alone: a framework would parse and rewrite what must go out as it
 * came in. Whatever is not plain HTTP/1.1 with one reading ends in 400.
 */
export async function startProxy(options: ProxyOptions): Promise<Proxy> {
  const limits = { ...PROXY_LIMITS, ...options.limits };
  const handler = new Handler(options, limits);
  const server = http.createServer({
    insecureHTTPParser: false,
    requireHostHeader: false,
    headersTimeout: limits.headersTimeoutMs,
    requestTimeout: limits.requestTimeoutMs,
    keepAliveTimeout: limits.keepAliveTimeoutMs,
    maxHeaderSize: MAX_HEADER_BYTES,
    connectionsCheckingInterval: Math.min(CHECK_EVERY_MS, limits.headersTimeoutMs),
  });
  server.maxConnections = limits.maxConnections;
  server.maxRequestsPerSocket = limits.maxRequestsPerSocket;
  server.on('request', (req, res) => handler.take(req, res, 'send'));
  server.on('checkContinue', (req, res) => handler.take(req, res, 'ask'));
  server.on('checkExpectation', (req, res) => handler.take(req, res, 'never'));
  server.on('connect', (_req, socket) => handler.refuseSocket(socket, 'bad_request'));
  server.on('upgrade', (_req, socket) => handler.refuseSocket(socket, 'bad_request'));
  server.on('clientError', (error, socket) => {
    const late = 'code' in error && error.code === 'ERR_HTTP_REQUEST_TIMEOUT';
    handler.refuseSocket(socket, late ? 'request_timeout' : 'bad_request');
  });
  server.listen(options.port, options.host);
  await once(server, 'listening');
  const port = portOf(server.address());
  return {
    url: urlOf(options.host, port),
    port,
    close: async (drainMs) => {
      if (server.listening) server.close();
      handler.closing = true;
      server.closeIdleConnections();
      const patience = new AbortController();
      const drained = handler.drain().then(() => options.forwarder.drain());
      await Promise.race([
        drained,
        sleep(drainMs, null, { signal: patience.signal }).catch(() => null),
      ]);
      patience.abort();
      server.closeAllConnections();
    },
  };
}

/** `ask`: the client waits for our word before it sends its body; `never`: it expects what nobody here can do. */
type BodyComes = 'send' | 'ask' | 'never';

class Handler {
  readonly #forwarder: Forwarder;
  readonly #onEvent: OnVaultEvent;
  readonly #limits: ProxyLimits;
  readonly #running = new Set<Promise<void>>();
  /** requests of each connection that have no answer yet */
  readonly #open = new WeakMap<Duplex, Set<IncomingMessage>>();
  /** connections that were told that what they sent is no request; nothing of theirs goes on */
  readonly #refused = new WeakSet<Duplex>();
  closing = false;

  constructor({ forwarder, onEvent }: ProxyOptions, limits: ProxyLimits) {
    this.#forwarder = forwarder;
    this.#onEvent = onEvent;
    this.#limits = limits;
  }

  take(req: IncomingMessage, res: ServerResponse, body: BodyComes): void {
    const work = this.#answer(req, res, body).catch((error: unknown) => {
      // A fault of our own: nothing is said of what happened, so the client may not conclude anything.
      const message = error instanceof Error ? error.message : 'unknown';
      this.#onEvent({ kind: 'fault', where: 'proxy', message });
      res.destroy();
    });
    this.#running.add(work);
    void work.finally(() => this.#running.delete(work));
  }

  async #refuse(req: IncomingMessage, res: ServerResponse, code: RefusalCode): Promise<void> {
    const { status, headers, body } = refusalOf(code);
    const request = { ...NO_FACTS, method: req.method ?? '' };
    this.#onEvent({ kind: 'refused', code, status, request, cap: null });
    await this.#write(req, res, { status, headers, body: Buffer.from(body) });
  }

  /**
   * For bytes that are no request. While a whole request of the connection waits for its answer, a refusal would be
   * taken for that answer, so there is none. A request that is not whole ends here.
   */
  refuseSocket(socket: Duplex, code: RefusalCode): void {
    if ([...(this.#open.get(socket) ?? [])].some((req) => req.complete))
      return void socket.destroy();
    this.#refused.add(socket);
    refuseSocket(socket, code);
  }

  async drain(): Promise<void> {
    while (this.#running.size > 0) await Promise.all(this.#running);
  }

  async #answer(req: IncomingMessage, res: ServerResponse, body: BodyComes): Promise<void> {
    const open = this.#open.get(req.socket) ?? new Set();
    this.#open.set(req.socket, open.add(req));
    res.once('close', () => open.delete(req));
    // Without a listener a client that resets its connection would end this process.
    req.on('error', () => {});
    res.on('error', () => {});
    if (body === 'never') return this.#refuse(req, res, 'expectation_failed');
    if (this.closing) return this.#refuse(req, res, 'vault_unavailable');
    if (req.httpVersion !== '1.1' || req.headers.host === undefined)
      return this.#refuse(req, res, 'bad_request');
    const admission = await this.#forwarder.admit(req.method ?? '', req.url ?? '', req.rawHeaders);
    if (admission.kind === 'refused') return this.#write(req, res, admission.answer);
    if (Number(req.headers['content-length'] ?? 0) > this.#limits.maxBodyBytes) {
      return this.#write(
        req,
        res,
        await this.#forwarder.refuseBody(admission.request, 'body_too_large'),
      );
    }
    if (body === 'ask') res.writeContinue();
    const read = await readWhole(req, this.#limits.maxBodyBytes);
    if (read === 'gone' || this.#refused.has(req.socket)) return;
    if (read === 'body_too_large') {
      return this.#write(req, res, await this.#forwarder.refuseBody(admission.request, read));
    }
    // From here on the client may leave: what it asked for goes on and is written down.
    await this.#write(req, res, await this.#forwarder.send(admission.request, read));
  }

  /** Until the answer is with the operating system, or the client gone. */
  async #write(req: IncomingMessage, res: ServerResponse, answer: Answer): Promise<void> {
    if (res.destroyed || res.headersSent) return;
    const { socket } = req;
    // What is left of a body must not be taken for the next request.
    const last = !req.complete || this.closing;
    res.writeHead(answer.status, {
      ...answer.headers,
      'content-length': String(answer.body.length),
      ...(last ? { connection: 'close' } : {}),
    });
    const written = untilWritten(res, socket, this.#limits.answerTimeoutMs);
    res.end(answer.body);
    if (!req.complete) {
      req.resume();
      setTimeout(() => socket.destroy(), LINGER_MS).unref();
    }
    return written;
  }
}

/** Ends the connection of a client that does not take its answer. */
function untilWritten(res: ServerResponse, socket: Duplex, timeoutMs: number): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => socket.destroy(), timeoutMs);
    const end = (): void => {
      clearTimeout(timer);
      resolve();
    };
    res.once('close', end);
    res.once('finish', end);
  });
}

async function readWhole(
  req: IncomingMessage,
  maxBytes: number,
): Promise<Buffer | 'body_too_large' | 'gone'> {
  const chunks: Buffer[] = [];
  let size = 0;
  return new Promise((resolve) => {
    req.on('data', (chunk: Buffer) => {
      size += chunk.length;
      if (size > maxBytes) return resolve('body_too_large');
      chunks.push(chunk);
    });
    req.on('end', () => resolve(Buffer.concat(chunks)));
    // Half a body is no request, whatever the half says.
    req.on('close', () => resolve('gone'));
  });
}

/** For what never became a request: a fixed answer, then the end of the connection. */
function refuseSocket(socket: Duplex, code: RefusalCode): void {
  if (!socket.writable || socket.destroyed) return void socket.destroy();
  const { status, headers, body } = refusalOf(code);
  const lines = Object.entries({
    ...headers,
    'content-length': String(Buffer.byteLength(body)),
    connection: 'close',
  }).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.on('error', () => {});
  socket.end(
    `HTTP/1.1 ${status} ${http.STATUS_CODES[status] ?? ''}\r\n${lines.join('')}\r\n${body}`,
  );
  setTimeout(() => socket.destroy(), LINGER_MS).unref();
}
