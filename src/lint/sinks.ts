import type { Node } from 'oxc-parser';
import type { Model } from './model.ts';
import type { Structure } from './structure.ts';
import { bare, isFunction, memberName, nameOfKey, pathOf } from './syntax.ts';
import { isHeaderName, isKeyName, isMoneyOrHttp, isOptions, isStore, isStoring } from './words.ts';

/** A place that gives a request its idempotency key. */
export interface Sink {
  /** what is pointed at */
  readonly node: Node;
  readonly value: Node;
  /** only where the request has none yet */
  readonly ifAbsent: boolean;
}

const SETTERS = /^(?:set|append|setHeader|header|addHeader|add|put|setRequestHeader)$/;
const DEPTH = 6;

export class Sinks {
  readonly #model: Model;
  readonly #structure: Structure;

  constructor(model: Model, structure: Structure) {
    this.#model = model;
    this.#structure = structure;
  }

  all(): Sink[] {
    return this.#model.nodes.flatMap((node) => {
      const found = this.#of(node);
      return found === null ? [] : [{ ...found, ifAbsent: this.#ifAbsent(node, found.value) }];
    });
  }

  #of(node: Node): { readonly node: Node; readonly value: Node } | null {
    switch (node.type) {
      case 'Property':
        return this.#ofProperty(node);
      case 'AssignmentExpression': {
        const target = bare(node.left);
        if (target.type !== 'MemberExpression') return null;
        const name = memberName(target) ?? this.#constant(target.property);
        if (name === null || !isKeyName(name)) return null;
        const holder = pathOf(target.object);
        const fits = isHeaderName(name) || (holder[0] !== 'this' && isOptions(holder.at(-1) ?? ''));
        return fits ? { node, value: node.right } : null;
      }
      case 'CallExpression': {
        const [name, value] = node.arguments;
        if (name === undefined || value === undefined) return null;
        const callee = bare(node.callee);
        const setter = callee.type === 'MemberExpression' ? (memberName(callee) ?? '') : '';
        if (!SETTERS.test(setter) && setter !== 'push') return null;
        const header = this.#constant(name);
        return header !== null && isHeaderName(header) ? { node, value } : null;
      }
      case 'ArrayExpression': {
        // Raw headers, in pairs or one behind the other.
        const at = node.elements.findIndex(
          (one) => one !== null && isHeaderName(this.#constant(one) ?? ''),
        );
        const value = at === -1 ? null : (node.elements[at + 1] ?? null);
        return value === null ? null : { node, value };
      }
      default:
        return null;
    }
  }

  #ofProperty(node: Node): { readonly node: Node; readonly value: Node } | null {
    if (node.type !== 'Property' || node.kind !== 'init') return null;
    const literal = this.#model.parent(node);
    if (literal?.type !== 'ObjectExpression' || isFunction(node.value)) return null;
    const name = nameOfKey(node.key, node.computed) ?? this.#constant(node.key);
    if (name === null || !isKeyName(name)) return null;
    // An option is one by where it goes: a row of a table may have a column of that name.
    return isHeaderName(name) || this.#isSent(literal, DEPTH) ? { node, value: node.value } : null;
  }

  /** The text that an expression is, also through a constant. */
  #constant(node: Node): string | null {
    const inner = bare(node);
    if (inner.type === 'Literal') return typeof inner.value === 'string' ? inner.value : null;
    const binding = inner.type === 'Identifier' ? this.#model.binding(inner) : null;
    const init = binding?.node.type === 'VariableDeclarator' ? binding.node.init : null;
    return init?.type === 'Literal' && typeof init.value === 'string' ? init.value : null;
  }

  /** Whether an object goes into a call that charges or sends. */
  #isSent(object: Node, depth: number): boolean {
    if (depth === 0) return false;
    const { parent, child } = this.#model.outer(object);
    switch (parent?.type) {
      case 'CallExpression': {
        const path = pathOf(parent.callee);
        if (path.some((part) => isStore(part)) || isStoring(path.at(-1) ?? '')) return false;
        // A model of an ORM: `Payment.create(…)`
        if (path.length === 2 && /^[A-Z]/.test(path[0] ?? '')) return false;
        if (parent.callee === child) return false;
        return path.some((part) => isMoneyOrHttp(part));
      }
      case 'Property': {
        const name = nameOfKey(parent.key, parent.computed) ?? '';
        if (/^(?:data|values|where|create|update|set|defaults)$/.test(name)) return false;
        const outer = this.#model.parent(parent);
        return outer !== null && this.#isSent(outer, depth - 1);
      }
      case 'SpreadElement':
      case 'ObjectExpression':
      case 'ConditionalExpression':
      case 'LogicalExpression':
        return this.#isSent(parent, depth - 1);
      case 'VariableDeclarator': {
        const binding = this.#model.binding(parent.id);
        return (binding?.uses ?? []).some((use) => this.#isSent(use, depth - 1));
      }
      case 'ReturnStatement':
      case 'ArrowFunctionExpression': {
        const fn = isFunction(parent) ? parent : this.#model.functionOf(parent);
        if (fn === null) return false;
        return this.#structure.sitesOf(fn).some((site) => this.#isSent(site, depth - 1));
      }
      default:
        return false;
    }
  }

  /** `??=`, or behind a question whether there is a key. */
  #ifAbsent(node: Node, value: Node): boolean {
    if (node.type === 'AssignmentExpression' && /^(?:\?\?|\|\|)=$/.test(node.operator)) return true;
    const inner = bare(value);
    if (inner.type === 'LogicalExpression' && /idempotency/i.test(this.#model.text(inner.left)))
      return true;
    if (inner.type === 'ConditionalExpression' && /idempotency/i.test(this.#model.text(inner.test)))
      return true;
    for (const at of this.#model.ancestors(node)) {
      if (isFunction(at)) return this.#leavesWhenThere(at, node);
      if (
        at.type !== 'IfStatement' &&
        at.type !== 'LogicalExpression' &&
        at.type !== 'ConditionalExpression'
      )
        continue;
      const test = at.type === 'LogicalExpression' ? at.left : at.test;
      if (this.#model.within(node, test)) continue;
      if (this.#asksForKey(test)) return true;
    }
    return false;
  }

  /** `if (headers.has('Idempotency-Key')) return …` above */
  #leavesWhenThere(fn: Node, node: Node): boolean {
    if (!isFunction(fn) || fn.body?.type !== 'BlockStatement') return false;
    return fn.body.body.some(
      (one) =>
        one.type === 'IfStatement' &&
        one.end <= node.start &&
        this.#asksForKey(one.test) &&
        /\breturn\b/.test(this.#model.text(one.consequent)),
    );
  }

  #asksForKey(test: Node): boolean {
    const text = this.#model.text(test);
    if (/idempotency/i.test(text)) return true;
    return this.#model.nodes.some(
      (node) =>
        node.type === 'Identifier' &&
        this.#model.within(node, test) &&
        isHeaderName(this.#constant(node) ?? ''),
    );
  }
}
