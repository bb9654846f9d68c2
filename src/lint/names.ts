import type { Node } from 'oxc-parser';
import type { Model } from './model.ts';
import type { SourceKind } from './sources.ts';
import { pathOf } from './syntax.ts';
import {
  isConnection,
  isConnectionId,
  isCountingTries,
  isMessage,
  isMessageId,
  isReplyName,
  isRequest,
  isRequestId,
  isRequestName,
  isSessionId,
  isSocket,
  isTracing,
  isTries,
  opensConnections,
} from './words.ts';

const HTTP_REQUEST = /\b(?:Fastify|Express|Next|Koa|Hono)?Request\b|\bIncomingMessage\b/;
const ROUTING = /^(?:get|post|put|patch|delete|all|use|route|addHook|handle)$/;

/** What a value is by what it is called, where the file does not show how it is made. */
export class Names {
  readonly #model: Model;

  constructor(model: Model) {
    this.#model = model;
  }

  /** What an opaque value is, by what it is called; `of` is what it is a property of. */
  kindOf(name: string, of: string | null, object: Node | null = null): SourceKind | null {
    // An order may count its declines, which is business; a job or a context counts tries.
    if (isTries(name) && (of === null || isCountingTries(of))) return 'tries';
    if (isTracing(name)) return 'tracing';
    if (isConnectionId(name)) return 'connection';
    if (of === null) return null;
    if (isRequestId(name) && isRequest(of)) return 'tracing';
    if (isRequestName(of)) {
      if (name === 'sessionID') return 'connection';
      return (name === 'id' || isRequestId(name)) && this.#isHttpRequest(object) ? 'tracing' : null;
    }
    if (name === 'id' || isSessionId(name)) {
      if (isSocket(of) || (isConnection(of) && this.#opens())) return 'connection';
      if (name === 'token' && of === 'session') return 'connection';
    }
    return (name === 'id' && isMessage(of)) || isMessageId(name) ? 'message' : null;
  }

  #opensConnections: boolean | null = null;

  #opens(): boolean {
    this.#opensConnections ??= opensConnections(this.#model.source.text);
    return this.#opensConnections;
  }

  /** `req` of a handler, and not a refund request out of a list. */
  #isHttpRequest(object: Node | null): boolean {
    const binding = object?.type === 'Identifier' ? this.#model.binding(object) : null;
    if (binding?.kind !== 'parameter' || binding.home === null) return false;
    const { identifier, home } = binding;
    const type = identifier.type === 'Identifier' ? (identifier.typeAnnotation ?? null) : null;
    if (type !== null) return HTTP_REQUEST.test(this.#model.text(type));
    if (this.#model.parametersOf(home).some(({ name }) => isReplyName(name))) return true;
    const { parent } = this.#model.outer(home);
    return parent?.type === 'CallExpression' && ROUTING.test(pathOf(parent.callee).at(-1) ?? '');
  }
}
