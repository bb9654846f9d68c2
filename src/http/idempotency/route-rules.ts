import type { FastifyRequest, RouteOptions } from 'fastify';
import type { RouteIdempotency, Settings } from './options.ts';
import type { Takeover } from './store.ts';

/** Methods that change nothing (RFC 9110, 9.2.1): they pass, with a key or without. */
const SAFE = new Set(['GET', 'HEAD', 'OPTIONS', 'TRACE']);

/** What the route says of keys; null for a request that is not looked at. */
export function rulesOf(request: FastifyRequest): RouteIdempotency | null {
  const own = request.routeOptions.config.idempotency;
  if (own === false || SAFE.has(request.method) || request.is404) return null;
  return own ?? {};
}

export function takeoverOf(request: FastifyRequest): Takeover {
  return rulesOf(request)?.takeover ?? 'conflict';
}

/** A secret is in what succeeded; why something was refused is kept, since a repeat asks just that. */
export function keepsBody(request: FastifyRequest, status: number): boolean {
  return status >= 300 || rulesOf(request)?.storeBody !== false;
}

/**
 * What an answer with this status does to its key. `free`: nothing was done, and the key is as new. `again`: something may
 * have been done, and doing it again is harmless; the same request may run again, and another may not have the key.
 */
export function keepingOf(
  request: FastifyRequest,
  settings: Settings,
  status: number,
): 'stored' | 'free' | 'again' {
  if (settings.neverStored.has(status)) return 'free';
  return rulesOf(request)?.neverStored?.includes(status) === true ? 'again' : 'stored';
}

/** Throws where a route would let a handler run again whose effects nothing else keeps from happening again. */
export function checkRoute({ method, url, config }: RouteOptions): void {
  const own = config?.idempotency;
  if (own === undefined || own === false || own.neverStored === undefined) return;
  if (own.takeover !== 'rerun')
    throw new TypeError(
      `${String(method)} ${url}: neverStored needs takeover "rerun", since the handler may have had effects`,
    );
}

/** Lines of one header are joined by commas; what has none is one line, and needs no second look. */
export function keyLinesOf({ raw }: FastifyRequest): readonly string[] | undefined {
  const joined = raw.headers['idempotency-key'];
  if (typeof joined === 'string' && !joined.includes(',')) return [joined];
  return raw.headersDistinct['idempotency-key'];
}

export function hasBody({ headers }: FastifyRequest): boolean {
  const length = headers['content-length'];
  return headers['transfer-encoding'] !== undefined || (length !== undefined && length !== '0');
}

/** Whose key space the route has. */
export function endpointOf(request: FastifyRequest, { endpoint }: Settings): string {
  return endpoint === 'shared' ? '*' : `${request.method} ${request.routeOptions.url ?? ''}`;
}
