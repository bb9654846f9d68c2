import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { problem } from './problems.ts';

/** A path with parameters, and the methods that it has. */
interface KnownPath {
  readonly pattern: RegExp;
  readonly methods: Set<string>;
}

/** Notes the routes that are registered from now on, and gives those without a limit of their own this one. */
export function watchRoutes(
  app: FastifyInstance,
  bodyBytes: number,
): ReadonlyMap<string, KnownPath> {
  const known = new Map<string, KnownPath>();
  app.addHook('onRoute', (route) => {
    route.bodyLimit ??= bodyBytes;
    const path = known.get(route.url) ?? { pattern: patternOf(route.url), methods: new Set() };
    for (const method of [route.method].flat()) path.methods.add(method);
    known.set(route.url, path);
  });
  return known;
}

const NO_QUERY = z.strictObject({});

/**
 * Refuses every query on routes registered from now on that describe none: a `?namespace=` or `?dry_run=` that is passed
 * over would have something else done than was meant.
 */
export function refuseUnknownQueries(app: FastifyInstance): void {
  app.addHook('onRoute', (route) => {
    route.schema = { ...route.schema, querystring: route.schema?.querystring ?? NO_QUERY };
  });
}

/** A path that the router cannot read comes to no route: no hook and no error handler of one sees it. */
export function answerUnreadablePath(code: string, reply: FastifyReply): FastifyReply {
  const detail =
    code === 'FST_ERR_MAX_PARAM_LENGTH'
      ? 'a part of the path is too long for a name of anything here'
      : 'the path cannot be read: "%" is followed by two hex digits, and together they are UTF-8';
  return problem(reply, 'path-invalid', detail);
}

/** 405 for a path that has other methods, 404 for one that is not there. */
export function answerUnknown(
  known: ReadonlyMap<string, KnownPath>,
  request: FastifyRequest,
  reply: FastifyReply,
): FastifyReply {
  const [path = ''] = request.url.split('?');
  for (const { pattern, methods } of known.values()) {
    if (!pattern.test(path)) continue;
    const allowed = [...methods].sort().join(', ');
    return problem(
      reply.header('Allow', allowed),
      'method-unknown',
      `this route has ${allowed}, and no ${request.method}`,
    );
  }
  return problem(reply, 'path-unknown', 'there is no such path; /openapi.json lists all');
}

/** `/v1/runs/:period` as an expression; the other parts are words. */
function patternOf(url: string): RegExp {
  return new RegExp(`^${url.replaceAll(/:[A-Za-z]+/g, '[^/]+')}$`);
}
