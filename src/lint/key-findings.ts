import type { Node } from 'oxc-parser';
import type { Binding } from './bindings.ts';
import type { Context, Contexts } from './contexts.ts';
import type { RawFinding } from './finding.ts';
import type { Flow, Origin } from './flow.ts';
import type { Model } from './model.ts';
import { RULES, type RuleId } from './rules.ts';
import type { Sink } from './sinks.ts';
import { bare, isFunction, pathOf } from './syntax.ts';
import { isSendToQueue, isStore, isStoring } from './words.ts';

/** A finding is told once, by the cause that is the surest. */
const ORDER = ['tries', 'tracing', 'connection', 'identity', 'clock', 'message', 'random'] as const;

/** Judges where the keys of a file come from. */
export class KeyFindings {
  readonly #model: Model;
  readonly #flow: Flow;
  readonly #contexts: Contexts;

  constructor(model: Model, flow: Flow, contexts: Contexts) {
    this.#model = model;
    this.#flow = flow;
    this.#contexts = contexts;
  }

  of(sink: Sink): RawFinding | null {
    const origins = this.#flow
      .originsOf(sink.value)
      .filter((origin) => !this.#isStored(sink, origin));
    const judged = ORDER.flatMap((kind) =>
      origins.filter((origin) => origin.kind === kind),
    ).flatMap((origin) => this.#judge(sink, origin) ?? []);
    const [first, ...others] = judged;
    if (first === undefined) return null;
    const rules = new Set(others.map(({ rule }) => rule).filter((rule) => rule !== first.rule));
    return rules.size === 0
      ? first
      : { ...first, message: `${first.message}; also ${[...rules].join(', ')}` };
  }

  #judge(sink: Sink, origin: Origin): RawFinding | null {
    const what = `the key is made of ${this.#model.shortText(origin.node)}`;
    const tell = (rule: RuleId, why: string, severity?: RawFinding['severity']): RawFinding => ({
      rule,
      severity: severity ?? RULES[rule].severity,
      node: sink.node,
      message: `${what}${this.#whereMade(sink, origin)}${why}`,
    });
    switch (origin.kind) {
      case 'tries':
        return tell('key-from-tracing', ', which counts tries');
      case 'tracing':
        return tell('key-from-tracing', ', which names one request and not the charge');
      case 'connection':
        return tell('key-from-connection', ', which ends with the connection');
      case 'identity':
        return tell('key-from-identity', ', which belongs to this process or object');
      case 'message':
        return this.#sendsAgain(sink)
          ? tell('key-from-message', ', and its handler sends the message again')
          : null;
      case 'clock':
      case 'random':
        return this.#judgeMade(sink, origin, tell);
      default:
        return null;
    }
  }

  #judgeMade(
    sink: Sink,
    origin: Origin,
    tell: (rule: RuleId, why: string, severity?: RawFinding['severity']) => RawFinding,
  ): RawFinding | null {
    const context = this.#contextOf(origin);
    const again = context === null ? '' : `, in ${context.label}`;
    if (origin.kind === 'clock' && (context !== null || !origin.fallback))
      return this.#isCut(origin)
        ? tell(
            'key-from-clock',
            `${again}, in pieces: a try in the next piece has another key`,
            'warning',
          )
        : tell('key-from-clock', again);
    const inInterceptor = context?.kind === 'interceptor' || context?.kind === 'retry';
    if (sink.ifAbsent && inInterceptor) return tell('key-if-absent', again);
    if (context === null) {
      if (sink.ifAbsent && !origin.fallback)
        return tell('key-if-absent', ', where the request has none', 'warning');
      return origin.fallback || this.#isMadeOutside(sink, origin)
        ? null
        : tell('key-from-randomness', '');
    }
    switch (context.kind) {
      case 'interceptor':
        return tell(origin.fallback ? 'key-if-absent' : 'key-in-interceptor', again);
      case 'retryHook':
        return tell('key-in-retry-hook', again);
      case 'retry':
        return tell('key-in-retry', again);
      case 'handler':
        return tell('key-in-handler', again);
      case 'route':
        // A request that brings no key of its own may get one.
        return origin.fallback ? null : tell('key-in-handler', again);
      default:
        return null;
    }
  }

  /** `Math.floor(Date.now() / 60_000)`: the same for a while. */
  #isCut({ node }: Origin): boolean {
    for (const at of this.#model.ancestors(node)) {
      if (isFunction(at) || at.type.endsWith('Statement')) return false;
      if (at.type === 'BinaryExpression' && at.operator === '/') return true;
    }
    return false;
  }

  #whereMade(sink: Sink, origin: Origin): string {
    const { text } = this.#model.source;
    const lineOf = (offset: number): number => text.slice(0, offset).split('\n').length;
    const line = lineOf(origin.node.start);
    return line === lineOf(sink.value.start) ? '' : ` (line ${line})`;
  }

  /** Why the place where a value is made runs again. A value that is kept is as old as what keeps it. */
  #contextOf(origin: Origin): Context | null {
    const kept = this.#keptIn(origin.node);
    if (kept === null) return this.#contexts.of(origin.node);
    if (kept.type === 'member') {
      const owner = this.#model.classOf(origin.node);
      return owner === null ? null : this.#contexts.ofInstances(owner);
    }
    return this.#contexts.of(kept.binding.identifier);
  }

  /** For `this.#key ??= randomUUID()` and `key ??= …`: what holds the value from the first time on. */
  #keptIn(node: Node): { type: 'member' } | { type: 'variable'; binding: Binding } | null {
    for (const at of this.#model.ancestors(node)) {
      if (isFunction(at)) return null;
      if (at.type !== 'AssignmentExpression') continue;
      if (!/^(?:\?\?|\|\|)=$/.test(at.operator) && !this.#isGuarded(at, at.left)) return null;
      const target = bare(at.left);
      if (target.type === 'MemberExpression' && bare(target.object).type === 'ThisExpression')
        return { type: 'member' };
      const binding = target.type === 'Identifier' ? this.#model.binding(target) : null;
      return binding === null ? null : { type: 'variable', binding };
    }
    return null;
  }

  /** `if (key === undefined) key = …` */
  #isGuarded(assignment: Node, target: Node): boolean {
    const text = this.#model.text(target);
    for (const at of this.#model.ancestors(assignment)) {
      if (isFunction(at)) return false;
      if (at.type === 'IfStatement' && this.#model.text(at.test).includes(text)) return true;
      if (at.type === 'LogicalExpression' && this.#model.text(at.left).includes(text)) return true;
    }
    return false;
  }

  /** Made in one place and used by a retry further in: all tries of that call have one key. */
  #isMadeOutside(sink: Sink, origin: Origin): boolean {
    const home = this.#model.functionOf(origin.node);
    // At the top of a script: once for the process, which is not tried again.
    if (
      home === null &&
      this.#keptIn(origin.node) === null &&
      this.#model.classOf(origin.node) === null
    )
      return true;
    return (
      this.#contexts.of(sink.node, home) !== null &&
      this.#model.within(sink.node, home ?? this.#model.source.program)
    );
  }

  /** The value is also written down somewhere: a row, a cache, a job. Then the next try can read it. */
  #isStored(sink: Sink, { through, node, kind }: Origin): boolean {
    if (kind !== 'random' && kind !== 'clock') return false;
    if (this.#isGivenToStore(node, sink)) return true;
    return through.some(
      (binding) =>
        binding.kind !== 'parameter' && binding.uses.some((use) => this.#isGivenToStore(use, sink)),
    );
  }

  #isGivenToStore(node: Node, sink: Sink): boolean {
    for (const at of this.#model.ancestors(node)) {
      // `headers.set('Idempotency-Key', key)` sends it.
      if (at === sink.node) return false;
      if (isFunction(at) || at.type.endsWith('Statement')) return false;
      if (at.type !== 'CallExpression') continue;
      const path = pathOf(at.callee);
      const last = path.at(-1) ?? '';
      // A hash is `updated` too.
      if (this.#model.within(node, at.callee) || path.some((part) => /hash|hmac/i.test(part)))
        continue;
      if (/^(?:headers?|res|reply|response|searchParams|params)$/i.test(path.at(-2) ?? ''))
        return false;
      if (isStoring(last) || path.slice(0, -1).some((part) => isStore(part))) return true;
      if (
        /^[A-Z]\w+$/.test(path[0] ?? '') &&
        path.length === 2 &&
        /^(?:create|build|new)$/.test(last)
      )
        return true;
    }
    return false;
  }

  /** Whether the function around the key puts a message into a queue where something has failed. */
  #sendsAgain(sink: Sink): boolean {
    const outer = this.#model.functionOf(sink.node);
    if (outer === null) return false;
    return this.#model.calls.some((call) => {
      if (!this.#model.within(call, outer) || !isSendToQueue(pathOf(call.callee).at(-1) ?? ''))
        return false;
      for (const at of this.#model.ancestors(call)) {
        if (at === outer) return false;
        if (at.type === 'CatchClause') return true;
      }
      return false;
    });
  }
}
