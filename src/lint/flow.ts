import type { Node } from 'oxc-parser';
import type { Binding } from './bindings.ts';
import type { Call, Model } from './model.ts';
import { Names } from './names.ts';
import { sourceOf, type SourceKind } from './sources.ts';
import type { Structure } from './structure.ts';
import { bare, memberName, pathOf, type FunctionLike } from './syntax.ts';
import { isMakingText, isTextMethod, isTries } from './words.ts';

/** One reason why a value changes, and where it is made. */
export interface Origin {
  readonly kind: SourceKind;
  readonly node: Node;
  /** It is taken only where another value is missing: `given ?? randomUUID()`. */
  readonly fallback: boolean;
  /** the variables and parameters that the value went through on its way */
  readonly through: readonly Binding[];
}

/** What the parameters of a function were given at the call that is looked at. */
type Environment = ReadonlyMap<
  Binding,
  { readonly value: Node; readonly environment: Environment }
>;

interface At {
  readonly environment: Environment;
  readonly depth: number;
  readonly through: readonly Binding[];
  readonly fallback: boolean;
}

const DEPTH = 25;
/** Enough for any message; code that computes a key of more is generated. */
const MOST_ORIGINS = 20;
/** Names that stand for many values each multiply; a value that needs more than this is not followed to its end. */
const MOST_STEPS = 20_000;
const START: At = { environment: new Map(), depth: DEPTH, through: [], fallback: false };

/** Follows values backwards, from where a key is sent to where it was made, within one file. */
export class Flow {
  readonly #model: Model;
  readonly #structure: Structure;
  readonly #names: Names;
  #steps = 0;

  constructor(model: Model, structure: Structure) {
    this.#model = model;
    this.#structure = structure;
    this.#names = new Names(model);
  }

  originsOf(value: Node): Origin[] {
    this.#steps = 0;
    const found = this.#of(value, START);
    const byNode = new Map(found.map((origin) => [`${origin.kind} ${origin.node.start}`, origin]));
    return [...byNode.values()];
  }

  #of(value: Node, at: At): Origin[] {
    this.#steps += 1;
    if (at.depth === 0 || this.#steps > MOST_STEPS) return [];
    const node = bare(value);
    const deeper = { ...at, depth: at.depth - 1 };
    const all = (nodes: readonly (Node | null)[]): Origin[] =>
      nodes.flatMap((part) => (part === null ? [] : this.#of(part, deeper))).slice(0, MOST_ORIGINS);
    switch (node.type) {
      case 'TemplateLiteral':
      case 'SequenceExpression':
        return all(node.type === 'TemplateLiteral' ? node.expressions : node.expressions.slice(-1));
      case 'BinaryExpression':
        return /^(?:[=!]==?|[<>]=?|in|instanceof)$/.test(node.operator)
          ? []
          : all([node.left, node.right]);
      case 'ConditionalExpression':
        return all([node.consequent, node.alternate]);
      case 'LogicalExpression':
        if (node.operator === '&&') return all([node.right]);
        return [...all([node.left]), ...this.#of(node.right, { ...deeper, fallback: true })];
      case 'AssignmentExpression':
        // `(next += 1)` counts, as `++next` does.
        if (
          node.operator === '+=' &&
          node.right.type === 'Literal' &&
          typeof node.right.value === 'number'
        )
          return [this.#origin(this.#isTriesName(node.left) ? 'tries' : 'identity', node, at)];
        return all([node.right]);
      case 'AwaitExpression':
        return this.#ofAwaited(node.argument, deeper);
      case 'UnaryExpression':
      case 'SpreadElement':
        return all([node.argument]);
      case 'UpdateExpression':
        return [this.#origin(this.#isTriesName(node.argument) ? 'tries' : 'identity', node, at)];
      case 'ArrayExpression':
        return all(node.elements);
      case 'ObjectExpression':
        return all(node.properties.map((one) => (one.type === 'Property' ? one.value : one)));
      case 'Identifier':
        return this.#ofName(node, node.name, deeper);
      case 'MemberExpression':
        return this.#ofMember(node, deeper);
      case 'CallExpression':
      case 'NewExpression':
        return this.#ofCall(node, deeper);
      case 'AssignmentPattern':
        return this.#of(node.left, deeper);
      default:
        return [];
    }
  }

  #origin(kind: SourceKind, node: Node, { fallback, through }: At): Origin {
    return { kind, node, fallback, through };
  }

  #isTriesName(node: Node): boolean {
    return isTries(pathOf(node).at(-1) ?? '');
  }

  #ofName(identifier: Node, name: string, at: At): Origin[] {
    const binding = this.#model.binding(identifier);
    if (binding === null || at.through.includes(binding)) return [];
    const own = sourceOf(this.#model, identifier);
    if (own !== null) return [this.#origin(own, identifier, at)];
    const next = { ...at, through: [...at.through, binding] };
    const named = this.#names.kindOf(binding.path.at(-1) ?? name, binding.path.at(-2) ?? null);
    const kind = named ?? this.#names.kindOf(name, null);
    const given = at.environment.get(binding);
    if (given !== undefined) {
      const to = { ...next, environment: given.environment };
      const values = this.#along(given.value, binding.path);
      return values.flatMap((value) => this.#of(value, to));
    }
    const found =
      binding.kind === 'parameter'
        ? this.#ofParameter(binding, next)
        : this.#ofVariable(binding, next);
    // `const spanId = randomUUID()`: what it is called says what it is for.
    if (kind !== null && (found.length > 0 || isOpaque(binding))) {
      const node = found[0]?.node ?? binding.identifier;
      return [this.#origin(kind, node, next)];
    }
    return found;
  }

  #ofVariable(binding: Binding, at: At): Origin[] {
    const counted = binding.uses.find((use) => {
      const parent = this.#model.parent(use);
      return (
        parent?.type === 'UpdateExpression' ||
        (parent?.type === 'AssignmentExpression' && parent.operator === '+=' && parent.left === use)
      );
    });
    if (counted !== undefined && isTries(binding.name))
      return [this.#origin('tries', binding.identifier, at)];
    // A number of this process: counted from the start again in the next one.
    if (counted !== undefined && binding.home === null && !this.#isLoopIndex(binding))
      return [this.#origin('identity', this.#model.parent(counted) ?? counted, at)];
    const { node } = binding;
    const values = this.#structure.valuesOf(binding);
    if (values.length === 0 && node.type === 'VariableDeclarator' && node.init !== null) {
      const [name = ''] = binding.path.slice(-1);
      const from = binding.path.at(-2) ?? pathOf(node.init).at(-1) ?? null;
      const kind = this.#names.kindOf(name, from);
      return kind === null ? [] : [this.#origin(kind, binding.identifier, at)];
    }
    return values.flatMap((value) =>
      this.#of(value, value === binding.fallback ? { ...at, fallback: true } : at),
    );
  }

  /** The place in a list is as stable as the list. */
  #isLoopIndex({ node }: Binding): boolean {
    const declaration = this.#model.parent(node);
    const loop = declaration === null ? null : this.#model.parent(declaration);
    return loop?.type === 'ForStatement' && loop.init === declaration;
  }

  #ofParameter(binding: Binding, at: At): Origin[] {
    const { home, fallback } = binding;
    const found = fallback === null ? [] : this.#of(fallback, { ...at, fallback: true });
    const sites = home === null ? [] : this.#structure.sitesOf(home);
    for (const site of sites) {
      if (site.type !== 'CallExpression' && site.type !== 'NewExpression') continue;
      const argument = site.arguments[binding.index];
      if (argument === undefined || argument.type === 'SpreadElement') continue;
      for (const value of this.#along(argument, binding.path)) found.push(...this.#of(value, at));
    }
    return found;
  }

  /** The values at the end of a destructured path; none when the file does not tell. */
  #along(value: Node, path: readonly string[]): Node[] {
    let values: Node[] = [value];
    for (const name of path)
      values = values.flatMap((one) => this.#structure.property(one, name) ?? []);
    return values;
  }

  #ofMember(member: Node, at: At): Origin[] {
    if (member.type !== 'MemberExpression') return [];
    const own = sourceOf(this.#model, member);
    if (own !== null) return [this.#origin(own, member, at)];
    const name = memberName(member);
    const object = bare(member.object);
    if (name === null || /^\d+$/.test(name)) {
      // The day of a time: it changes with the period, not with the try.
      const ofDay =
        name === '0' && object.type === 'CallExpression' && pathOf(object).at(-1) === 'split';
      return this.#of(object, at).filter(({ kind }) => !(ofDay && kind === 'clock'));
    }
    if (name === 'length' || name === 'size') return [];
    const values = this.#structure.property(object, name);
    const found = (values ?? []).flatMap((value) => this.#of(value, at));
    const kind = this.#names.kindOf(name, pathOf(object).at(-1) ?? null, object);
    if (kind !== null && (values === null || values.length === 0 || found.length > 0))
      return [this.#origin(kind, member, at)];
    if (values !== null) return found;
    const root = object.type === 'Identifier' ? this.#model.binding(object) : null;
    if (root?.kind !== 'parameter') return [];
    return this.#ofParameter({ ...root, path: [...root.path, name], fallback: null }, at);
  }

  #ofAwaited(value: Node, at: At): Origin[] {
    const node = bare(value);
    // What comes from elsewhere may have been stored there, whatever was offered: `await keys.getOrCreate(randomUUID())`.
    if (node.type === 'CallExpression' && this.#structure.functionsOf(node.callee).length === 0)
      return pathOf(node.callee).join('.').endsWith('subtle.digest')
        ? node.arguments.flatMap((argument) => this.#of(argument, at))
        : [];
    return this.#of(node, at);
  }

  #ofCall(call: Call, at: At): Origin[] {
    const own = sourceOf(this.#model, call);
    if (own !== null) return [this.#origin(own, call, at)];
    const called = call.type === 'CallExpression' ? this.#structure.functionsOf(call.callee) : [];
    if (called.length > 0) return called.flatMap((fn) => this.#ofLocal(fn, call, at));
    const args = (): Origin[] => call.arguments.flatMap((argument) => this.#of(argument, at));
    const callee = bare(call.callee);
    const name = pathOf(callee).at(-1) ?? '';
    if (call.type === 'NewExpression') return name === 'Date' || isMakingText(name) ? args() : [];
    if (callee.type === 'MemberExpression' && isTextMethod(name)) {
      const from = [...this.#of(callee.object, at), ...args()];
      return isDayOnly(this.#model, call, name)
        ? from.filter(({ kind }) => kind !== 'clock')
        : from;
    }
    const root = pathOf(callee)[0] ?? '';
    if (!isMakingText(name) && !isMakingText(root)) return [];
    return isDayOnly(this.#model, call, name)
      ? args().filter(({ kind }) => kind !== 'clock')
      : args();
  }

  /** What a function of this file gives back, with the parameters that this call gives it. */
  #ofLocal(fn: FunctionLike, call: Call, at: At): Origin[] {
    const environment = new Map(at.environment);
    for (const binding of this.#model.parametersOf(fn)) {
      const value = call.arguments[binding.index];
      if (value !== undefined && value.type !== 'SpreadElement')
        environment.set(binding, { value, environment: at.environment });
    }
    return this.#structure
      .returnsOf(fn)
      .flatMap((value) => this.#of(value, { ...at, environment }));
  }
}

/** A parameter, an import, or a value out of something that this file does not show. */
function isOpaque({ kind, node, path }: Binding): boolean {
  if (kind === 'parameter' || kind === 'import') return true;
  return (
    node.type === 'VariableDeclarator' &&
    (path.length > 0 || (node.init !== null && isCallOrMember(bare(node.init))))
  );
}

function isCallOrMember(node: Node): boolean {
  return (
    node.type === 'CallExpression' ||
    node.type === 'MemberExpression' ||
    node.type === 'AwaitExpression'
  );
}

/** `2026-11` or `2026-11-29` made of a time: the same for all tries of that month or day. */
function isDayOnly(model: Model, call: Call, name: string): boolean {
  const texts = call.arguments.map((argument) => model.text(argument));
  if (/^(?:slice|substr(?:ing)?)$/.test(name))
    return /^0,(?:4|7|10)$/.test(texts.join(',').replaceAll(' ', ''));
  if (!/^format/i.test(name)) return false;
  const pattern = texts.find((text) => /^['"`]/.test(text)) ?? '';
  return /[yYM]/.test(pattern) && !/[hHmsSTxX]/.test(pattern.replaceAll(/\[[^\]]*\]/g, ''));
}
