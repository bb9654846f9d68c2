import type { Class, Node } from 'oxc-parser';
import type { Model } from './model.ts';
import type { Sink } from './sinks.ts';
import { bare, isClass, isFunction, memberName, nameOfKey, type FunctionLike } from './syntax.ts';
import { isKeyName } from './words.ts';

/** A parameter called `idempotencyKey` of something that a file exports: what other files give it is a key. */
export interface KeyParameter {
  /** as it is exported; `default` */
  readonly exported: string;
  /** of the exported class; null for an exported function */
  readonly method: string | null;
  readonly index: number;
  /** for `charge({ idempotencyKey })`: the property's name */
  readonly property: string | null;
}

/** The key parameters behind an import; none for what is not known. */
export type ImportedKeys = (specifier: string) => readonly KeyParameter[];

/** What a file exports that takes a key. */
export function keyParametersOf(model: Model): KeyParameter[] {
  return exportsOf(model).flatMap(({ exported, node }) => {
    if (isFunction(node)) return ofFunction(model, node, { exported, method: null });
    return isClass(node) ? ofClass(model, node, exported) : [];
  });
}

function ofClass(model: Model, owner: Class, exported: string): KeyParameter[] {
  return owner.body.body.flatMap((element) => {
    if (element.type !== 'MethodDefinition') return [];
    const method = nameOfKey(element.key, element.computed);
    return method === null ? [] : ofFunction(model, element.value, { exported, method });
  });
}

function ofFunction(
  model: Model,
  fn: FunctionLike,
  of: Pick<KeyParameter, 'exported' | 'method'>,
): KeyParameter[] {
  return model
    .parametersOf(fn)
    .filter(({ name, path }) => isKeyName(path[0] ?? name) && path.length <= 1)
    .map(({ index, path }) => ({ ...of, index, property: path[0] ?? null }));
}

function exportsOf(model: Model): { exported: string; node: Node }[] {
  return model.source.program.body.flatMap((statement) => {
    if (statement.type === 'ExportDefaultDeclaration')
      return [{ exported: 'default', node: statement.declaration }];
    if (statement.type !== 'ExportNamedDeclaration') return [];
    const { declaration } = statement;
    if (declaration?.type === 'VariableDeclaration')
      return declaration.declarations.flatMap(({ id, init }) =>
        id.type === 'Identifier' && init !== null ? [{ exported: id.name, node: bare(init) }] : [],
      );
    if (declaration !== null && (isFunction(declaration) || isClass(declaration)))
      return declaration.id === null ? [] : [{ exported: declaration.id.name, node: declaration }];
    return statement.specifiers.flatMap(({ local, exported }) => {
      const binding = model.binding(local);
      if (binding === null) return [];
      const node =
        binding.node.type === 'VariableDeclarator'
          ? (binding.node.init ?? binding.node)
          : binding.node;
      return [{ exported: nameOfKey(exported, false) ?? '', node }];
    });
  });
}

/** The arguments that a file gives to key parameters of other files. */
export function importedSinks(model: Model, keys: ImportedKeys): Sink[] {
  const local = new Map<string, readonly KeyParameter[]>();
  for (const statement of model.source.program.body) {
    if (statement.type !== 'ImportDeclaration') continue;
    const known = keys(statement.source.value);
    if (known.length === 0) continue;
    for (const specifier of statement.specifiers) {
      const own =
        specifier.type === 'ImportSpecifier'
          ? known.filter(({ exported }) => exported === nameOfKey(specifier.imported, false))
          : specifier.type === 'ImportDefaultSpecifier'
            ? known.filter(({ exported }) => exported === 'default')
            : known.map((one) => ({ ...one, method: one.method ?? one.exported }));
      if (own.length > 0) local.set(specifier.local.name, own);
    }
  }
  if (local.size === 0) return [];
  return model.calls.flatMap((call) => {
    const callee = bare(call.callee);
    const isNew = call.type === 'NewExpression';
    const method =
      callee.type === 'MemberExpression' ? memberName(callee) : isNew ? 'constructor' : null;
    const owner = callee.type === 'MemberExpression' ? bare(callee.object) : callee;
    const name = importedName(model, owner, callee.type === 'MemberExpression');
    const parameters = name === null ? [] : (local.get(name) ?? []);
    return parameters.flatMap((parameter): Sink[] => {
      if (parameter.method !== method) return [];
      const argument = call.arguments[parameter.index];
      const value = argument === undefined ? null : valueOf(argument, parameter.property);
      return value === null ? [] : [{ node: value, value, ifAbsent: false }];
    });
  });
}

function valueOf(argument: Node, property: string | null): Node | null {
  if (property === null) return argument.type === 'SpreadElement' ? null : argument;
  const literal = bare(argument);
  if (literal.type !== 'ObjectExpression') return null;
  const own = literal.properties.find(
    (one) => one.type === 'Property' && nameOfKey(one.key, one.computed) === property,
  );
  return own?.type === 'Property' ? own.value : null;
}

/** The imported name that an expression is, or is an object of. */
function importedName(model: Model, node: Node, isObject: boolean): string | null {
  if (node.type === 'NewExpression') return importedName(model, bare(node.callee), false);
  const binding = node.type === 'Identifier' ? model.binding(node) : null;
  if (binding === null || node.type !== 'Identifier') return null;
  if (binding.kind === 'import') return node.name;
  if (!isObject) return null;
  const annotation =
    binding.identifier.type === 'Identifier' ? binding.identifier.typeAnnotation : null;
  if (annotation !== null && annotation !== undefined)
    return model.text(annotation).replace(/^:\s*/, '');
  const init = binding.node.type === 'VariableDeclarator' ? binding.node.init : null;
  return init === null
    ? null
    : init.type === 'NewExpression'
      ? importedName(model, init, false)
      : null;
}
