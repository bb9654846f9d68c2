import type { Class, Node } from 'oxc-parser';
import type { Binding } from './bindings.ts';
import type { Call, Model } from './model.ts';
import {
  bare,
  childrenOf,
  isClass,
  isFunction,
  memberName,
  nameOfKey,
  type FunctionLike,
} from './syntax.ts';

/** How far a question follows names, calls and properties before it answers that it does not know. */
const DEPTH = 12;
/** For a whole file: bundles have names that stand for very much. What is asked later is not known. */
const MOST_STEPS = 2_000_000;

/** Which function a call means, where a function is called, and what a property holds: all within one file. */
export class Structure {
  readonly #model: Model;
  #steps = 0;

  constructor(model: Model) {
    this.#model = model;
  }

  #isSpent(): boolean {
    this.#steps += 1;
    return this.#steps > MOST_STEPS;
  }

  /** The functions of this file that an expression may mean. */
  functionsOf(expression: Node, depth = DEPTH): FunctionLike[] {
    const node = bare(expression);
    if (depth === 0 || this.#isSpent()) return [];
    if (isFunction(node)) return [node];
    if (node.type === 'Identifier') {
      const binding = this.#model.binding(node);
      if (binding === null) return [];
      if (binding.kind === 'function' && isFunction(binding.node)) return [binding.node];
      if (binding.kind !== 'variable') return [];
      return this.valuesOf(binding).flatMap((value) => this.functionsOf(value, depth - 1));
    }
    if (node.type === 'LogicalExpression')
      return [node.left, node.right].flatMap((side) => this.functionsOf(side, depth - 1));
    if (node.type === 'ConditionalExpression')
      return [node.consequent, node.alternate].flatMap((side) => this.functionsOf(side, depth - 1));
    if (node.type !== 'MemberExpression') return [];
    const name = memberName(node);
    if (name === null)
      return this.#elementsOf(node.object).flatMap((one) => this.functionsOf(one, depth - 1));
    const values = this.property(node.object, name, depth - 1) ?? [];
    return values.flatMap((value) => this.functionsOf(value, depth - 1));
  }

  /** The elements of a list, for an index that is computed. */
  #elementsOf(list: Node): Node[] {
    const node = bare(list);
    if (node.type === 'ArrayExpression') return node.elements.filter((element) => element !== null);
    const binding = node.type === 'Identifier' ? this.#model.binding(node) : null;
    return (binding === null ? [] : this.valuesOf(binding)).flatMap((value) => {
      const literal = bare(value);
      return literal.type === 'ArrayExpression'
        ? literal.elements.filter((element) => element !== null)
        : [];
    });
  }

  /** What a variable is given, at its declaration and later. Nothing for a destructured one that cannot be followed. */
  valuesOf(binding: Binding): Node[] {
    const values: Node[] = [];
    const { node } = binding;
    if (node.type === 'VariableDeclarator' && node.init !== null) {
      if (binding.path.length === 0) values.push(node.init);
      else values.push(...(this.#dig(node.init, binding.path) ?? []));
    }
    if (binding.fallback !== null) values.push(binding.fallback);
    for (const { right } of this.writesOf(binding)) values.push(right);
    return values;
  }

  /** The assignments to a variable. */
  writesOf(binding: Binding) {
    return binding.uses.flatMap((use) => {
      const parent = this.#model.parent(use);
      return parent?.type === 'AssignmentExpression' && parent.left === use ? [parent] : [];
    });
  }

  /** What a function gives back. */
  returnsOf(fn: FunctionLike): Node[] {
    if (fn.body === null) return [];
    if (fn.body.type !== 'BlockStatement') return [fn.body];
    const found: Node[] = [];
    const stack: Node[] = [fn.body];
    for (let node = stack.pop(); node !== undefined; node = stack.pop()) {
      if (node.type === 'ReturnStatement' && node.argument !== null) found.push(node.argument);
      if (!isFunction(node) && !isClass(node)) stack.push(...childrenOf(node));
    }
    return found;
  }

  /** What `object.name` may be; null when this file does not tell. */
  property(object: Node, name: string, depth = DEPTH): Node[] | null {
    if (depth <= 0 || this.#isSpent()) return null;
    const node = bare(object);
    switch (node.type) {
      case 'ObjectExpression':
        return this.#ofLiteral(node.properties, name, depth);
      case 'AwaitExpression':
        return this.property(node.argument, name, depth - 1);
      case 'ThisExpression': {
        const owner = this.#model.classOf(node);
        return owner === null ? null : this.classMember(owner, name);
      }
      case 'NewExpression': {
        const made = this.classMeant(node.callee);
        return made === null ? null : this.classMember(made, name);
      }
      case 'CallExpression': {
        const returned = this.functionsOf(node.callee, depth - 1).flatMap((fn) =>
          this.returnsOf(fn),
        );
        return firstKnown(returned.map((value) => this.property(value, name, depth - 1)));
      }
      case 'Identifier':
        return this.#ofName(node, name, depth);
      default:
        return null;
    }
  }

  #ofName(identifier: Node, name: string, depth: number): Node[] | null {
    const binding = this.#model.binding(identifier);
    if (binding === null) return null;
    const typed = this.#typeOf(binding);
    if (typed !== null) return this.classMember(typed, name);
    const written = binding.uses.flatMap((use) => {
      const { parent } = this.#model.outer(use);
      if (parent?.type !== 'MemberExpression' || memberName(parent) !== name) return [];
      const outer = this.#model.parent(parent);
      return outer?.type === 'AssignmentExpression' && outer.left === parent ? [outer.right] : [];
    });
    const known =
      binding.kind === 'parameter'
        ? null
        : firstKnown(this.valuesOf(binding).map((value) => this.property(value, name, depth - 1)));
    if (known !== null) return [...known, ...written];
    if (written.length > 0) return written;
    return isTyped(binding) ? null : this.#onlyGetter(name);
  }

  /** Of an object of unknown kind: the getter of that name, where just one class of the file has one. */
  #onlyGetter(name: string): Node[] | null {
    const owners = this.#model.nodes
      .filter((node) => isClass(node))
      .filter((owner) =>
        owner.body.body.some(
          (one) =>
            one.type === 'MethodDefinition' &&
            one.kind === 'get' &&
            nameOfKey(one.key, one.computed) === name,
        ),
      );
    const [owner, ...others] = owners;
    return owner === undefined || others.length > 0 ? null : this.classMember(owner, name);
  }

  #ofLiteral(properties: readonly Node[], name: string, depth: number): Node[] | null {
    for (const property of properties.toReversed()) {
      if (property.type === 'SpreadElement') {
        const spread = this.property(property.argument, name, depth - 1);
        if (spread !== null && spread.length > 0) return spread;
      } else if (
        property.type === 'Property' &&
        nameOfKey(property.key, property.computed) === name
      ) {
        if (property.kind !== 'get') return [property.value];
        return isFunction(property.value) ? this.returnsOf(property.value) : [];
      }
    }
    return [];
  }

  #dig(object: Node, path: readonly string[]): Node[] | null {
    let values: Node[] = [object];
    for (const name of path) {
      const next = firstKnown(values.map((value) => this.property(value, name)));
      if (next === null) return null;
      values = next;
    }
    return values;
  }

  /** The class of this file that a variable is of, by its type or by `new`. */
  #typeOf(binding: Binding): Class | null {
    const { identifier, node } = binding;
    const annotation =
      identifier.type === 'Identifier' ? (identifier.typeAnnotation ?? null) : null;
    if (annotation !== null) {
      const name = this.#model.text(annotation).replace(/^:\s*/, '');
      return this.#classes().get(name) ?? null;
    }
    if (node.type !== 'VariableDeclarator' || node.init === null || binding.path.length > 0)
      return null;
    const init = bare(node.init);
    return init.type === 'NewExpression' ? this.classMeant(init.callee) : null;
  }

  #classesByName: ReadonlyMap<string, Class> | null = null;

  #classes(): ReadonlyMap<string, Class> {
    this.#classesByName ??= new Map(
      this.#model.nodes
        .filter((node) => isClass(node))
        .flatMap((node): [string, Class][] => (node.id === null ? [] : [[node.id.name, node]])),
    );
    return this.#classesByName;
  }

  classMeant(callee: Node): Class | null {
    const node = bare(callee);
    if (isClass(node)) return node;
    const binding = node.type === 'Identifier' ? this.#model.binding(node) : null;
    return binding !== null && isClass(binding.node) ? binding.node : null;
  }

  /** What a member of a class holds: its method, what its getter gives, or all that is ever put into it. */
  classMember(owner: Class, name: string): Node[] {
    const values: Node[] = [];
    for (const element of owner.body.body) {
      if (element.type === 'PropertyDefinition' || element.type === 'MethodDefinition') {
        if (nameOfKey(element.key, element.computed) !== name || element.value === null) continue;
        if (element.type === 'MethodDefinition' && element.kind === 'get')
          values.push(...this.returnsOf(element.value));
        else values.push(element.value);
      }
    }
    for (const param of constructorOf(owner)?.params ?? [])
      if (param.type === 'TSParameterProperty' && patternName(param.parameter) === name)
        values.push(param.parameter);
    for (const write of this.#model.memberWrites.get(name) ?? []) {
      const target = bare(write.left);
      if (target.type !== 'MemberExpression' || bare(target.object).type !== 'ThisExpression')
        continue;
      if (this.#model.classOf(write) === owner) values.push(write.right);
    }
    return values;
  }

  /** Where a function is called (or, for a getter, read; for a constructor, `new`), in this file. */
  sitesOf(fn: FunctionLike): Node[] {
    const parent = this.#model.parent(fn);
    if (fn.type === 'FunctionDeclaration') {
      const binding = fn.id === null ? null : this.#model.binding(fn.id);
      return binding === null ? [] : this.#callsOf(binding);
    }
    if (parent?.type === 'MethodDefinition') {
      const owner = this.#model.classOf(parent);
      if (owner === null) return [];
      if (parent.kind === 'constructor') return this.newSitesOf(owner);
      const name = nameOfKey(parent.key, parent.computed);
      return name === null ? [] : this.#usesOfMember(owner, name, parent.kind === 'get');
    }
    if (parent?.type === 'PropertyDefinition') {
      const owner = this.#model.classOf(parent);
      const name = nameOfKey(parent.key, parent.computed);
      return owner === null || name === null ? [] : this.#usesOfMember(owner, name, false);
    }
    if (parent?.type === 'VariableDeclarator') {
      const binding = this.#model.binding(parent.id);
      return binding === null ? [] : this.#callsOf(binding);
    }
    if (parent?.type === 'Property') return this.#callsOfProperty(parent);
    return this.#callsAsArgument(fn);
  }

  newSitesOf(owner: Class): Node[] {
    const binding = owner.id === null ? null : this.#model.binding(owner.id);
    return binding === null ? [] : this.#callsOf(binding);
  }

  #callsOf(binding: Binding): Node[] {
    return binding.uses.flatMap((use) => {
      const call = this.#callOf(use);
      return call === null ? [] : [call];
    });
  }

  #callOf(callee: Node): Call | null {
    const { parent, child } = this.#model.outer(callee);
    if (parent?.type !== 'CallExpression' && parent?.type !== 'NewExpression') return null;
    return parent.callee === child ? parent : null;
  }

  #usesOfMember(owner: Class, name: string, isGetter: boolean): Node[] {
    return (this.#model.members.get(name) ?? []).flatMap((member): Node[] => {
      if (member.type !== 'MemberExpression') return [];
      const object = bare(member.object);
      const own =
        object.type === 'ThisExpression'
          ? this.#model.classOf(object) === owner
          : object.type === 'NewExpression'
            ? this.classMeant(object.callee) === owner
            : this.#isInstance(object, owner);
      if (!own) return [];
      if (isGetter) return [member];
      const call = this.#callOf(member);
      return call === null ? [] : [call];
    });
  }

  #isInstance(object: Node, owner: Class): boolean {
    const binding = object.type === 'Identifier' ? this.#model.binding(object) : null;
    return binding !== null && this.#typeOf(binding) === owner;
  }

  /** Of `{ charge() {} }` held by a variable: `held.charge()`. */
  #callsOfProperty(property: Node): Node[] {
    if (property.type !== 'Property') return [];
    const literal = this.#model.parent(property);
    const name = nameOfKey(property.key, property.computed);
    if (literal === null || name === null) return [];
    const { parent } = this.#model.outer(literal);
    const binding = parent?.type === 'VariableDeclarator' ? this.#model.binding(parent.id) : null;
    const through = binding?.uses ?? [];
    return through.flatMap((use): Node[] => {
      const member = this.#model.outer(use).parent;
      if (member?.type !== 'MemberExpression' || memberName(member) !== name) return [];
      if (property.kind === 'get') return [member];
      const call = this.#callOf(member);
      return call === null ? [] : [call];
    });
  }

  /** A function given to another one of this file is called where that one calls its parameter. */
  #callsAsArgument(fn: FunctionLike): Node[] {
    const { parent, child } = this.#model.outer(fn);
    if (parent?.type !== 'CallExpression') return [];
    const index = parent.arguments.findIndex((argument) => argument === child);
    if (parent.callee === child) return [parent];
    return this.functionsOf(parent.callee).flatMap((callee) => {
      const param = callee.params[index];
      const binding = param === undefined ? null : this.#model.binding(param);
      return binding === null ? [] : this.#callsOf(binding);
    });
  }
}

export function constructorOf(owner: Class): FunctionLike | null {
  for (const element of owner.body.body)
    if (element.type === 'MethodDefinition' && element.kind === 'constructor') return element.value;
  return null;
}

function isTyped({ identifier }: Binding): boolean {
  return identifier.type === 'Identifier' && (identifier.typeAnnotation ?? null) !== null;
}

function patternName(pattern: Node): string | null {
  if (pattern.type === 'AssignmentPattern') return patternName(pattern.left);
  return pattern.type === 'Identifier' ? pattern.name : null;
}

function firstKnown(answers: readonly (Node[] | null)[]): Node[] | null {
  const known = answers.filter((answer) => answer !== null);
  return known.length === 0 ? null : known.flat();
}
