import type { Class, Node } from 'oxc-parser';
import type { Call, Model } from './model.ts';
import { constructorOf, type Structure } from './structure.ts';
import { bare, isFunction, nameOfKey, pathOf, type FunctionLike } from './syntax.ts';
import {
  isEventRegistration,
  isHandlerName,
  isPolicy,
  isRetryHook,
  isRetrying,
  isRouteMethod,
  isRouter,
  isSendHook,
  isSubscribing,
} from './words.ts';

/** Why a piece of code runs again for the same thing. */
export interface Context {
  readonly kind: 'interceptor' | 'retryHook' | 'retry' | 'handler' | 'route';
  /** what makes it run again, as it stands in a message: `pRetry(…)` */
  readonly label: string;
}

const DEPTH = 8;

/** Tells whether a place in the text runs again, for the same charge, when a try fails. */
export class Contexts {
  readonly #model: Model;
  readonly #structure: Structure;
  readonly #known = new Map<FunctionLike, Context | null>();

  constructor(model: Model, structure: Structure) {
    this.#model = model;
    this.#structure = structure;
  }

  /** The nearest reason why the node runs again; null when this file shows none. `until` is a node that is not left. */
  of(node: Node, until: Node | null = null): Context | null {
    for (const at of this.#model.ancestors(node)) {
      if (at === until) return null;
      if (isRetryLoop(at, node)) return { kind: 'retry', label: 'the loop that tries again' };
      if (!isFunction(at)) continue;
      const found = this.#ofFunction(at);
      if (found !== null) return found;
    }
    return null;
  }

  #ofFunction(fn: FunctionLike): Context | null {
    const known = this.#known.get(fn);
    if (known !== undefined) return known;
    // For a function that calls itself, by whatever way: the answer comes from elsewhere.
    this.#known.set(fn, null);
    const found = this.#byPlace(fn) ?? this.#byCalls(fn);
    this.#known.set(fn, found);
    return found;
  }

  #byPlace(fn: FunctionLike): Context | null {
    const parent = this.#model.parent(fn);
    if (parent?.type === 'MethodDefinition') {
      const decorators = parent.decorators.map((one) => pathOf(one.expression).at(-1) ?? '');
      const pattern = decorators.find((name) =>
        /Pattern$|^Cron$|^Interval$|^Process$|Handler$|^Sqs/.test(name),
      );
      if (pattern !== undefined) return { kind: 'handler', label: `@${pattern}` };
      if (decorators.some((name) => isRetrying(name)))
        return { kind: 'retry', label: `@${decorators[0]}` };
    }
    const name = nameOf(this.#model, fn);
    // `(dispatch) => (options, handler) => …` of undici
    if (this.#model.parametersOf(fn).some((own) => own.name === 'dispatch' && own.index === 0))
      return {
        kind: 'interceptor',
        label: name === null ? 'an interceptor' : `${name}, an interceptor`,
      };
    if (name !== null) {
      const owner = parent?.type === 'MethodDefinition' ? this.#model.classOf(parent) : null;
      const byName = ofName(name, owner, isExported(this.#model, fn));
      if (byName !== null) return byName;
    }
    return (
      this.#ofValue(fn, DEPTH) ?? firstOf(this.#mentionsOf(fn), (use) => this.#ofValue(use, DEPTH))
    );
  }

  /** Where a declared function or a method is named, to be called or to be handed on. */
  #mentionsOf(fn: FunctionLike): readonly Node[] {
    if (fn.type === 'FunctionDeclaration')
      return fn.id === null ? [] : (this.#model.binding(fn.id)?.uses ?? []);
    const parent = this.#model.parent(fn);
    if (parent?.type !== 'MethodDefinition' || parent.kind !== 'method') return [];
    const owner = this.#model.classOf(parent);
    const members = this.#model.members.get(nameOfKey(parent.key, parent.computed) ?? '') ?? [];
    return members.filter(
      (one) =>
        one.type === 'MemberExpression' &&
        bare(one.object).type === 'ThisExpression' &&
        this.#model.classOf(one) === owner,
    );
  }

  /** Where a function goes as a value: into an option, a list of hooks, a call. */
  #ofValue(value: Node, depth: number): Context | null {
    if (depth === 0) return null;
    const { parent, child } = this.#model.outer(value);
    switch (parent?.type) {
      case 'CallExpression':
      case 'NewExpression': {
        const index = parent.arguments.findIndex((argument) => argument === child);
        return index === -1 ? null : this.#ofArgument(parent, index);
      }
      case 'Property': {
        const name = nameOfKey(parent.key, parent.computed) ?? '';
        if (parent.value !== child) return null;
        const hook = ofHook(name);
        if (hook !== null) return hook;
        if (isHandlerName(name)) return { kind: 'handler', label: name };
        // `fetch: (url, init) => …` given to a client runs for each send.
        if (/^(?:fetch|transport|httpClient)$/.test(name))
          return { kind: 'interceptor', label: `the ${name} of a client` };
        const literal = this.#model.parent(parent);
        return literal === null ? null : this.#ofOptions(literal);
      }
      case 'ArrayExpression':
      case 'ConditionalExpression':
      case 'LogicalExpression':
        return this.#ofValue(parent, depth - 1);
      case 'VariableDeclarator': {
        const binding = this.#model.binding(parent.id);
        return firstOf(binding?.uses ?? [], (use) => this.#ofValue(use, depth - 1));
      }
      case 'ReturnStatement':
      case 'ArrowFunctionExpression': {
        const outer = parent.type === 'ReturnStatement' ? this.#model.functionOf(parent) : parent;
        if (outer === null || (parent.type === 'ArrowFunctionExpression' && parent.body !== child))
          return null;
        const calls = this.#structure.sitesOf(outer);
        return firstOf(calls, (call) => this.#ofValue(call, depth - 1));
      }
      case 'AssignmentExpression': {
        const path = pathOf(parent.left);
        const name = path.at(-1) ?? '';
        if (name === 'fetch' || name === 'request')
          return { kind: 'interceptor', label: path.join('.') };
        return ofHook(name) ?? (/^on[a-z]+$/.test(name) ? { kind: 'handler', label: name } : null);
      }
      default:
        return null;
    }
  }

  /** `pRetry(charge, { … })`: its options are its hooks, and not its work. */
  #ofOptions(literal: Node): Context | null {
    const { parent } = this.#model.outer(literal);
    if (parent?.type !== 'CallExpression' && parent?.type !== 'NewExpression') return null;
    const name = pathOf(parent.callee).at(-1) ?? '';
    return isSubscribing(name) ? { kind: 'handler', label: `${name}(…)` } : null;
  }

  #ofArgument(call: Call, index: number): Context | null {
    const path = pathOf(call.callee);
    const name = path.at(-1) ?? '';
    const label = `${path.filter((part) => part !== '?').join('.')}(…)`;
    if (
      path.includes('interceptors') ||
      name === 'compose' ||
      /interceptor|middleware$/i.test(name)
    )
      return { kind: 'interceptor', label };
    const hook = ofHook(name);
    if (hook !== null) return { ...hook, label };
    const policy = path.slice(0, -1).some((part) => isPolicy(part) || isRetrying(part));
    if (isRetrying(name) || (policy && /^(?:execute|run|fire|call|do|attempt)$/.test(name)))
      return { kind: 'retry', label };
    const [first] = call.arguments;
    const event = first?.type === 'Literal' && typeof first.value === 'string' ? first.value : null;
    if (isEventRegistration(name))
      return index > 0 && event !== null && isMessageEvent(event)
        ? { kind: 'handler', label: `.on('${event}', …)` }
        : null;
    if (isSubscribing(name) || (name === 'work' && index > 0)) return { kind: 'handler', label };
    if (isRouteMethod(name) && index > 0 && event !== null && isRouter(path.at(-2) ?? ''))
      return { kind: 'route', label };
    return null;
  }

  /** A function is run again when a call of it is, or when it is called once more where the first call has failed. */
  #byCalls(fn: FunctionLike): Context | null {
    const sites = this.#structure.sitesOf(fn);
    const own = nameOf(this.#model, fn) ?? 'the function';
    for (const site of sites) {
      if (site !== fn && this.#model.within(site, fn))
        return { kind: 'retry', label: `${own}, which calls itself again` };
      if (this.#isAfterFailure(site, sites))
        return { kind: 'retry', label: `${own}, which is called again when it fails` };
    }
    return firstOf(sites, (site) => this.of(site));
  }

  /** A call in a `catch` or a `.catch(…)` whose try, or promise, is another call of the same function. */
  #isAfterFailure(site: Node, sites: readonly Node[]): boolean {
    for (const at of this.#model.ancestors(site)) {
      if (at.type === 'CatchClause') {
        const whole = this.#model.parent(at);
        if (
          whole?.type === 'TryStatement' &&
          sites.some((other) => this.#model.within(other, whole.block))
        )
          return true;
      }
      if (at.type === 'CallExpression' && /^(?:catch|then)$/.test(pathOf(at.callee).at(-1) ?? '')) {
        const callee = bare(at.callee);
        const inArguments = at.arguments.some((argument) => this.#model.within(site, argument));
        if (
          inArguments &&
          callee.type === 'MemberExpression' &&
          sites.some((other) => this.#model.within(other, callee.object))
        )
          return true;
      }
    }
    return false;
  }

  /** For what is kept in an object: where its objects are made. */
  ofInstances(owner: Class): Context | null {
    const maker = constructorOf(owner);
    if (maker !== null) return this.#ofFunction(maker);
    return firstOf(this.#structure.newSitesOf(owner), (site) => this.of(site));
  }
}

function ofHook(name: string): Context | null {
  if (isRetryHook(name)) return { kind: 'retryHook', label: name };
  return isSendHook(name) ? { kind: 'interceptor', label: name } : null;
}

function ofName(name: string, owner: Class | null, exported: boolean): Context | null {
  const parent = owner?.superClass == null ? '' : (pathOf(owner.superClass).at(-1) ?? '');
  if (
    owner !== null &&
    /^(?:dispatch|request|_send|send|addRequest)$/.test(name) &&
    /Agent|Dispatcher|Client|Interceptor|Pool/.test(parent)
  )
    return { kind: 'interceptor', label: `${name} of a ${parent}` };
  if (name === 'intercept' || /interceptor$/i.test(name))
    return { kind: 'interceptor', label: name };
  if (isRetryHook(name)) return { kind: 'retryHook', label: name };
  // The event handler of a cloud function, or a method that a framework calls.
  if (
    isHandlerName(name) &&
    (owner !== null || exported || /^(?:on|handle|process|consume)[A-Z]/.test(name))
  )
    return { kind: 'handler', label: name };
  return null;
}

function isMessageEvent(event: string): boolean {
  return /message|data|job|task|event|connect|open|ready|session|reconnect|drain|writable|delivery|order|charge|payment|failed|error|retry|request|stream|line|upgrade/i.test(
    event,
  );
}

function nameOf(model: Model, fn: FunctionLike): string | null {
  if (fn.id !== null) return fn.id.name;
  const parent = model.parent(fn);
  if (parent?.type === 'VariableDeclarator' && parent.id.type === 'Identifier')
    return parent.id.name;
  if (parent?.type === 'MethodDefinition' || parent?.type === 'PropertyDefinition')
    return nameOfKey(parent.key, parent.computed);
  return null;
}

function isExported(model: Model, fn: FunctionLike): boolean {
  for (const at of model.ancestors(fn)) {
    if (at.type === 'ExportNamedDeclaration' || at.type === 'ExportDefaultDeclaration') return true;
    if (at.type !== 'VariableDeclarator' && at.type !== 'VariableDeclaration') return false;
  }
  return false;
}

/** A loop that ends at a success: it has a `try`, and leaves from within it. A loop over customers has no such end. */
function isRetryLoop(loop: Node, inner: Node): boolean {
  if (
    loop.type !== 'ForStatement' &&
    loop.type !== 'WhileStatement' &&
    loop.type !== 'DoWhileStatement'
  )
    return false;
  if (inner.start < loop.body.start || inner.end > loop.body.end) return false;
  const body = loop.body.type === 'BlockStatement' ? loop.body.body : [loop.body];
  return body.some((statement) => {
    if (statement.type !== 'TryStatement' || statement.handler === null) return false;
    const { block } = statement;
    const leaves = block.body.some(
      (one) => one.type === 'ReturnStatement' || one.type === 'BreakStatement',
    );
    // `while (!done)`, with `done = true` at the end of the try
    const last = block.body.at(-1);
    const sets =
      last?.type === 'ExpressionStatement' && last.expression.type === 'AssignmentExpression';
    return leaves || (sets && loop.type !== 'ForStatement');
  });
}

function firstOf(nodes: readonly Node[], ask: (node: Node) => Context | null): Context | null {
  for (const node of nodes) {
    const found = ask(node);
    if (found !== null) return found;
  }
  return null;
}
