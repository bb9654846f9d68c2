import type { Node } from 'oxc-parser';
import { isFunction, nameOfKey, type FunctionLike } from './syntax.ts';

/** One name and what it stands for. */
export interface Binding {
  readonly name: string;
  readonly kind: 'variable' | 'parameter' | 'function' | 'class' | 'import' | 'other';
  /** where the name is written */
  readonly identifier: Node;
  /** the declarator, function, class or import; the function itself for a parameter */
  readonly node: Node;
  /** the function that it belongs to; null for the module's own */
  readonly home: FunctionLike | null;
  /** place among the parameters; -1 for what is none */
  readonly index: number;
  /** the way through a destructured value: `['data', 'id']` of `const { data: { id } } = …` */
  readonly path: readonly string[];
  /** its default value */
  readonly fallback: Node | null;
  /** all uses beside its declaration */
  readonly uses: Node[];
}

interface Scope {
  readonly parent: Scope | null;
  readonly isFunction: boolean;
  readonly names: Map<string, Binding>;
}

type Origin = Pick<Binding, 'kind' | 'node' | 'home' | 'index'>;

const SCOPES = new Set([
  'Program',
  'BlockStatement',
  'ForStatement',
  'ForInStatement',
  'ForOfStatement',
  'CatchClause',
  'SwitchStatement',
  'StaticBlock',
  'TSModuleBlock',
  'ClassDeclaration',
  'ClassExpression',
]);

/** Tells of each name in use what it stands for. `nodes` come parents first. */
export function bindNames(
  nodes: readonly Node[],
  parents: ReadonlyMap<Node, Node>,
): Map<Node, Binding> {
  const scopes = new Map<Node, Scope>();
  const homes = new Map<Node, FunctionLike | null>();
  const declared = new Set<Node>();
  const found = new Map<Node, Binding>();

  const declare = (scope: Scope, binding: Binding): void => {
    declared.add(binding.identifier);
    found.set(binding.identifier, binding);
    // The first one counts: a second `var` or an overload is the same name.
    if (!scope.names.has(binding.name)) scope.names.set(binding.name, binding);
  };

  for (const node of nodes) {
    const parent = parents.get(node);
    const outer = parent === undefined ? null : (scopes.get(parent) ?? null);
    const home =
      parent === undefined ? null : isFunction(parent) ? parent : (homes.get(parent) ?? null);
    homes.set(node, home);
    const scope: Scope =
      outer === null || isFunction(node) || SCOPES.has(node.type)
        ? { parent: outer, isFunction: outer === null || isFunction(node), names: new Map() }
        : outer;
    scopes.set(node, scope);
    declareOf(node, { scope, outer: outer ?? scope, home, declare });
  }

  for (const node of nodes) {
    if (node.type !== 'Identifier' || declared.has(node) || !isUse(node, parents)) continue;
    const binding = lookUp(scopes.get(node) ?? null, node.name);
    if (binding === null) continue;
    found.set(node, binding);
    binding.uses.push(node);
  }
  return found;
}

interface Declaring {
  /** the scope that the node opens, or the one that it is in */
  readonly scope: Scope;
  /** the scope that it is in */
  readonly outer: Scope;
  readonly home: FunctionLike | null;
  readonly declare: (scope: Scope, binding: Binding) => void;
}

function declareOf(node: Node, { scope, outer, home, declare }: Declaring): void {
  const put = (to: Scope, pattern: Node, origin: Origin): void => {
    for (const binding of bindingsOf(pattern, origin)) declare(to, binding);
  };
  if (isFunction(node)) {
    if (node.id !== null) {
      const own = { kind: 'function', node, home, index: -1 } as const;
      put(node.type === 'FunctionDeclaration' ? outer : scope, node.id, own);
    }
    node.params.forEach((param, index) => {
      const pattern = param.type === 'TSParameterProperty' ? param.parameter : param;
      put(scope, pattern, { kind: 'parameter', node, home: node, index });
    });
    return;
  }
  switch (node.type) {
    case 'VariableDeclaration': {
      const to = node.kind === 'var' ? functionScope(scope) : scope;
      for (const declarator of node.declarations)
        put(to, declarator.id, { kind: 'variable', node: declarator, home, index: -1 });
      return;
    }
    case 'ClassDeclaration':
    case 'ClassExpression':
      if (node.id !== null) put(outer, node.id, { kind: 'class', node, home, index: -1 });
      return;
    case 'CatchClause':
      if (node.param !== null) put(scope, node.param, { kind: 'other', node, home, index: -1 });
      return;
    case 'ImportDeclaration':
      for (const specifier of node.specifiers)
        put(scope, specifier.local, { kind: 'import', node: specifier, home, index: -1 });
      return;
    case 'TSEnumDeclaration':
      put(outer, node.id, { kind: 'other', node, home, index: -1 });
      return;
    default:
  }
}

function functionScope(scope: Scope): Scope {
  let at = scope;
  while (!at.isFunction && at.parent !== null) at = at.parent;
  return at;
}

/** The names that a pattern declares. */
function bindingsOf(
  pattern: Node,
  origin: Origin,
  way: { readonly path: readonly string[]; readonly fallback: Node | null } = {
    path: [],
    fallback: null,
  },
): Binding[] {
  switch (pattern.type) {
    case 'Identifier': {
      const { name } = pattern;
      return [{ ...origin, ...way, name, identifier: pattern, uses: [] }];
    }
    case 'AssignmentPattern':
      return bindingsOf(pattern.left, origin, { path: way.path, fallback: pattern.right });
    case 'RestElement':
      return bindingsOf(pattern.argument, origin, { path: [...way.path, '...'], fallback: null });
    case 'ArrayPattern':
      return pattern.elements.flatMap((element, index) =>
        element === null
          ? []
          : bindingsOf(element, origin, { path: [...way.path, String(index)], fallback: null }),
      );
    case 'ObjectPattern':
      return pattern.properties.flatMap((property) => {
        if (property.type === 'RestElement') return bindingsOf(property, origin, way);
        const key = nameOfKey(property.key, property.computed) ?? '?';
        return bindingsOf(property.value, origin, { path: [...way.path, key], fallback: null });
      });
    default:
      return [];
  }
}

function lookUp(scope: Scope | null, name: string): Binding | null {
  for (let at = scope; at !== null; at = at.parent) {
    const binding = at.names.get(name);
    if (binding !== undefined) return binding;
  }
  return null;
}

/** False for a name that is a property, a label or a part of an import. */
function isUse(node: Node, parents: ReadonlyMap<Node, Node>): boolean {
  const parent = parents.get(node);
  switch (parent?.type) {
    case 'MemberExpression':
      return parent.object === node || parent.computed;
    case 'Property':
    case 'MethodDefinition':
    case 'PropertyDefinition':
    case 'AccessorProperty':
      return parent.key !== node || parent.computed;
    case 'LabeledStatement':
    case 'BreakStatement':
    case 'ContinueStatement':
    case 'ImportSpecifier':
    case 'ImportAttribute':
    case 'MetaProperty':
      return false;
    case 'ExportSpecifier':
      return parent.local === node;
    default:
      return true;
  }
}
