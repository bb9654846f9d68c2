import type { Node } from 'oxc-parser';
import type { RawFinding } from './finding.ts';
import type { Model } from './model.ts';
import type { Sink } from './sinks.ts';
import { constructorOf, type Structure } from './structure.ts';
import { bare, isFunction, memberName, type FunctionLike } from './syntax.ts';

/** A key in a variable, or in an object, that outlives the call which has put it there. */
export class SharedState {
  readonly #model: Model;
  readonly #structure: Structure;

  constructor(model: Model, structure: Structure) {
    this.#model = model;
    this.#structure = structure;
  }

  of(sink: Sink): RawFinding | null {
    const value = bare(sink.value);
    const writes = this.#sharedWrites(value);
    const write = writes.find((one) => this.#isRaced(one, sink));
    if (write === undefined) return null;
    const line = this.#model.source.text.slice(0, write.start).split('\n').length;
    return {
      rule: 'key-in-shared-state',
      severity: 'error',
      node: sink.node,
      message: `the key is read from ${this.#model.shortText(value)}, which every call overwrites (line ${line}) and awaits before it is sent`,
    };
  }

  /** The assignments to what several calls share, each with what it takes from its own call. */
  #sharedWrites(value: Node): Node[] {
    if (value.type === 'Identifier') {
      const binding = this.#model.binding(value);
      if (binding?.kind !== 'variable') return [];
      return this.#structure
        .writesOf(binding)
        .filter(
          (write) =>
            write.operator === '=' &&
            this.#model.functionOf(write) !== binding.home &&
            this.#varies(write.right),
        );
    }
    const name = value.type === 'MemberExpression' ? memberName(value) : null;
    if (value.type !== 'MemberExpression' || name === null) return [];
    if (bare(value.object).type !== 'ThisExpression') return [];
    const owner = this.#model.classOf(value);
    if (owner === null) return [];
    const maker = constructorOf(owner);
    return (this.#model.memberWrites.get(name) ?? []).filter((write) => {
      const target = bare(write.left);
      if (target.type !== 'MemberExpression' || bare(target.object).type !== 'ThisExpression')
        return false;
      if (this.#model.classOf(write) !== owner || write.operator !== '=') return false;
      return this.#model.functionOf(write) !== maker && this.#varies(write.right);
    });
  }

  /** It takes something that belongs to one call: a parameter of the function around, or what comes of one. */
  #varies(value: Node): boolean {
    return bare(value).type !== 'Literal' && /[\w$]\s*[(.[]|^[\w$]+$/.test(this.#model.text(value));
  }

  /** Between the assignment and the send, the function waits, and another call may come in. */
  #isRaced(write: Node, sink: Sink): boolean {
    const writer = this.#model.functionOf(write);
    if (writer === null || !writer.async) return false;
    const waits = this.#waitsOf(writer).filter((wait) => wait.start >= write.end);
    const reader = this.#model.functionOf(sink.node);
    if (reader === writer) return waits.some((wait) => wait.end <= sink.value.start);
    if (reader === null) return false;
    const calls = this.#structure
      .sitesOf(reader)
      .filter((site) => this.#model.within(site, writer));
    const before = this.#waitsOf(reader).some((wait) => wait.end <= sink.value.start);
    return calls.some(
      (call) => call.start >= write.end && (before || waits.some((wait) => wait.end <= call.start)),
    );
  }

  #waitsOf(fn: FunctionLike): Node[] {
    return this.#model.nodes.filter(
      (node) =>
        (node.type === 'AwaitExpression' || (node.type === 'ForOfStatement' && node.await)) &&
        this.#model.within(node, fn) &&
        isFunction(fn) &&
        this.#model.functionOf(node) === fn,
    );
  }
}
