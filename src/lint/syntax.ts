import { parseSync, visitorKeys, type Class, type Function as FunctionNode } from 'oxc-parser';
import type { ArrowFunctionExpression, Comment, Node, Program } from 'oxc-parser';

export type FunctionLike = FunctionNode | ArrowFunctionExpression;

export interface ParsedSource {
  readonly text: string;
  readonly program: Program;
  readonly comments: readonly Comment[];
}

interface SyntaxProblem {
  readonly message: string;
  readonly offset: number;
}

export type Parsed =
  | { readonly ok: true; readonly source: ParsedSource }
  | { readonly ok: false; readonly problem: SyntaxProblem };

/** JavaScript files hold JSX or types now and then, whatever they are called; what parses is taken. */
const OTHER_LANGUAGES = { js: ['jsx', 'ts'], ts: ['tsx'], plain: [] } as const;

/** The tree of a source text. A text with errors that a tree can be had of has one. */
export function parseSource(fileName: string, text: string): Parsed {
  const first = parseSync(fileName, text, {
    preserveParens: false,
    sourceType: sourceTypeOf(fileName),
  });
  if (first.program.body.length > 0 || first.errors.length === 0) return parsed(text, first);
  const family = /\.[cm]?jsx?$/.test(fileName) ? 'js' : fileName.endsWith('.ts') ? 'ts' : 'plain';
  for (const lang of OTHER_LANGUAGES[family]) {
    const other = parseSync(fileName, text, { preserveParens: false, lang });
    if (other.program.body.length > 0) return parsed(text, other);
  }
  const [error] = first.errors;
  const offset = error?.labels[0]?.start ?? 0;
  return { ok: false, problem: { message: error?.message ?? 'it does not parse', offset } };
}

function parsed(text: string, result: ReturnType<typeof parseSync>): Parsed {
  return { ok: true, source: { text, program: result.program, comments: result.comments } };
}

function sourceTypeOf(fileName: string): 'module' | 'commonjs' | 'unambiguous' {
  if (/\.c[jt]s$/.test(fileName)) return 'commonjs';
  return /\.m[jt]s$/.test(fileName) ? 'module' : 'unambiguous';
}

/** Parts of a tree that exist for the type checker alone. */
const TYPE_KEYS = new Set([
  'typeAnnotation',
  'typeArguments',
  'typeParameters',
  'returnType',
  'superTypeArguments',
  'implements',
]);
const TYPE_NODES = /^TS(?:Interface|TypeAlias|Declare|ImportEquals|NamespaceExport|Index)/;

/** The children of a node that run, in the order of the text. */
export function childrenOf(node: Node): Node[] {
  const children: Node[] = [];
  for (const key of visitorKeys[node.type] ?? []) {
    if (TYPE_KEYS.has(key)) continue;
    const value: unknown = Reflect.get(node, key);
    for (const child of Array.isArray(value) ? value : [value])
      if (isNode(child) && !TYPE_NODES.test(child.type)) children.push(child);
  }
  return children;
}

function isNode(value: unknown): value is Node {
  return (
    typeof value === 'object' && value !== null && 'type' in value && typeof value.type === 'string'
  );
}

export function isFunction(node: Node | null): node is FunctionLike {
  return (
    node?.type === 'FunctionDeclaration' ||
    node?.type === 'FunctionExpression' ||
    node?.type === 'ArrowFunctionExpression'
  );
}

export function isClass(node: Node | null): node is Class {
  return node?.type === 'ClassDeclaration' || node?.type === 'ClassExpression';
}

/** What a node means without the marks of types and of optional chains around it. */
export function bare(node: Node): Node {
  let inner = node;
  for (;;) {
    switch (inner.type) {
      case 'TSAsExpression':
      case 'TSSatisfiesExpression':
      case 'TSNonNullExpression':
      case 'TSTypeAssertion':
      case 'TSInstantiationExpression':
      case 'ChainExpression':
      case 'ParenthesizedExpression':
        inner = inner.expression;
        break;
      default:
        return inner;
    }
  }
}

/** The name that a property, member or method has in the text; null for a computed one that is no literal. */
export function nameOfKey(key: Node, computed: boolean): string | null {
  if (key.type === 'Literal') return String(key.value);
  if (key.type === 'PrivateIdentifier') return `#${key.name}`;
  if (key.type === 'TemplateLiteral' && key.expressions.length === 0)
    return key.quasis[0]?.value.cooked ?? null;
  return key.type === 'Identifier' && !computed ? key.name : null;
}

/** `c` of `a.b.c`; null where it is computed from something else than a literal. */
export function memberName(node: Node): string | null {
  return node.type === 'MemberExpression' ? nameOfKey(node.property, node.computed) : null;
}

/** `['this', 'stripe', 'refunds', 'create']` of `this.stripe.refunds.create`; calls on the way count as their callee. */
export function pathOf(node: Node): string[] {
  const path: string[] = [];
  let at: Node | null = bare(node);
  while (at !== null) {
    if (at.type === 'MemberExpression') {
      path.unshift(memberName(at) ?? '?');
      at = bare(at.object);
    } else if (at.type === 'CallExpression' || at.type === 'NewExpression') at = bare(at.callee);
    else {
      if (at.type === 'AwaitExpression') {
        at = bare(at.argument);
        continue;
      }
      path.unshift(rootName(at));
      at = null;
    }
  }
  return path;
}

function rootName(node: Node): string {
  if (node.type === 'Identifier') return node.name;
  return node.type === 'ThisExpression' ? 'this' : '?';
}
