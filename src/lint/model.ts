import type { AssignmentExpression, CallExpression, Class, NewExpression, Node } from 'oxc-parser';
import { bindNames, type Binding } from './bindings.ts';
import {
  bare,
  childrenOf,
  isClass,
  isFunction,
  memberName,
  type FunctionLike,
  type ParsedSource,
} from './syntax.ts';

export type Call = CallExpression | NewExpression;

/** A source text with everything that rules ask of it: who contains whom, and what each name stands for. */
export class Model {
  readonly source: ParsedSource;
  /** all nodes, in the order of the text */
  readonly nodes: readonly Node[];
  readonly calls: readonly Call[];
  /** `anything.name = …`, by name */
  readonly memberWrites: ReadonlyMap<string, readonly AssignmentExpression[]>;
  /** `anything.name` where it is read or called, by name */
  readonly members: ReadonlyMap<string, readonly Node[]>;
  readonly #parents: ReadonlyMap<Node, Node>;
  readonly #bindings: ReadonlyMap<Node, Binding>;
  readonly #parameters = new Map<FunctionLike, Binding[]>();

  constructor(source: ParsedSource) {
    this.source = source;
    const { nodes, parents } = flatten(source.program);
    this.nodes = nodes;
    this.#parents = parents;
    this.#bindings = bindNames(nodes, parents);
    for (const binding of new Set(this.#bindings.values())) {
      if (binding.kind !== 'parameter' || binding.home === null) continue;
      const own = this.#parameters.get(binding.home);
      if (own === undefined) this.#parameters.set(binding.home, [binding]);
      else own.push(binding);
    }
    const calls: Call[] = [];
    const writes = new Map<string, AssignmentExpression[]>();
    const members = new Map<string, Node[]>();
    for (const node of nodes) {
      if (node.type === 'CallExpression' || node.type === 'NewExpression') calls.push(node);
      if (node.type === 'AssignmentExpression') {
        const name = memberName(bare(node.left));
        if (name !== null) writes.set(name, [...(writes.get(name) ?? []), node]);
      }
      if (node.type === 'MemberExpression') {
        const name = memberName(node);
        if (name === null) continue;
        const list = members.get(name);
        if (list === undefined) members.set(name, [node]);
        else list.push(node);
      }
    }
    this.calls = calls;
    this.memberWrites = writes;
    this.members = members;
  }

  parent(node: Node): Node | null {
    return this.#parents.get(node) ?? null;
  }

  /** What a name stands for; null for one that comes from outside of the file. */
  binding(node: Node): Binding | null {
    return this.#bindings.get(node) ?? null;
  }

  /** All names that the parameters of a function declare. */
  parametersOf(fn: FunctionLike): readonly Binding[] {
    return this.#parameters.get(fn) ?? [];
  }

  text(node: Node): string {
    return this.source.text.slice(node.start, node.end);
  }

  /** Short enough for a message. */
  shortText(node: Node): string {
    const text = this.text(node).replaceAll(/\s+/g, ' ');
    return text.length > 60 ? `${text.slice(0, 57)}…` : text;
  }

  /** From the parent to the program. */
  *ancestors(node: Node): Generator<Node> {
    for (let at = this.parent(node); at !== null; at = this.parent(at)) yield at;
  }

  functionOf(node: Node): FunctionLike | null {
    for (const at of this.ancestors(node)) if (isFunction(at)) return at;
    return null;
  }

  /** The class whose `this` a node sees. */
  classOf(node: Node): Class | null {
    for (const at of this.ancestors(node)) if (isClass(at)) return at;
    return null;
  }

  within(node: Node, outer: Node): boolean {
    return node.start >= outer.start && node.end <= outer.end;
  }

  /** The parent that matters: not the marks of types, optional chains and `await`. */
  outer(node: Node): { readonly parent: Node | null; readonly child: Node } {
    let child = node;
    let parent = this.parent(node);
    while (parent !== null && (bare(parent) !== parent || parent.type === 'AwaitExpression')) {
      child = parent;
      parent = this.parent(parent);
    }
    return { parent, child };
  }
}

/** Without recursion: generated sources nest deeper than a stack does. */
function flatten(program: Node): { nodes: Node[]; parents: Map<Node, Node> } {
  const nodes: Node[] = [];
  const parents = new Map<Node, Node>();
  const stack: Node[] = [program];
  for (let node = stack.pop(); node !== undefined; node = stack.pop()) {
    nodes.push(node);
    const children = childrenOf(node);
    for (const child of children.toReversed()) {
      parents.set(child, node);
      stack.push(child);
    }
  }
  return { nodes, parents };
}
