import type { Node } from 'oxc-parser';
import type { Call, Model } from './model.ts';
import { bare, pathOf } from './syntax.ts';

/** Why a value is not the same when the same thing is done again. */
export type SourceKind =
  | 'random'
  | 'clock'
  | 'tries'
  | 'tracing'
  | 'connection'
  | 'identity'
  | 'message';

const RANDOM_MODULES =
  /^(?:uuid|nanoid|ulid|ulidx|cuid|@paralleldrive\/cuid2|uuidv7|uid|short-uuid|shortid|hyperid|ksuid|crypto-random-string|@napi-rs\/uuid)(?:\/.*)?$/;
const RANDOM_CALL =
  /^(?:randomUUID|randomBytes|randomInt|getRandomValues|randomFillSync|nanoid|ulid|cuid|createId|uuid|uuidv[1467]|uuid_v[14]|guid|newGuid|generateUuid|generateUUID|makeUuid|makeUUID|randomId|generateId|shortid|uniqid|hyperid)$/;
const CLOCKS = new Set([
  'Date.now',
  'performance.now',
  'process.hrtime',
  'process.hrtime.bigint',
  'hrtime',
  'hrtime.bigint',
  'process.uptime',
  'DateTime.now',
  'DateTime.utc',
  'DateTime.local',
  'Temporal.Now.instant',
  'Temporal.Now.plainDateTimeISO',
  'Temporal.Now.zonedDateTimeISO',
]);
/** Without arguments, these tell the time. */
const CLOCKS_BY_DEFAULT = new Set([
  'Date',
  'dayjs',
  'moment',
  'moment.utc',
  'dayjs.utc',
  'getTime',
  'getUnixTime',
]);
const PROCESS =
  /^(?:process\.pid|process\.env\.(?:HOSTNAME|POD_NAME|POD_UID)|cluster\.worker\.id)$/;
const PROCESS_CALL = /^(?:os\.hostname|hostname|inspect|util\.inspect)$/;

/** What a call or a member makes by itself; null for anything else. */
export function sourceOf(model: Model, node: Node): SourceKind | null {
  switch (node.type) {
    case 'CallExpression':
    case 'NewExpression':
      return ofCall(model, node);
    case 'MemberExpression':
    case 'Identifier':
      return PROCESS.test(pathOf(node).join('.')) ? 'identity' : null;
    default:
      return null;
  }
}

function ofCall(model: Model, call: Call): SourceKind | null {
  const callee = bare(call.callee);
  const path = pathOf(callee);
  const last = path.at(-1) ?? '';
  const dotted = path.join('.').replace(/^(?:globalThis|window|self)\./, '');
  if (callee.type === 'Identifier') {
    const from = importedFrom(model, callee);
    if (
      from !== null &&
      RANDOM_MODULES.test(from.module) &&
      !/^(?:v[35]|validate|parse|stringify|version)$/.test(from.name)
    )
      return 'random';
    // A function of this file may be called anything: what it does is looked up instead.
    const local = model.binding(callee);
    if (local !== null && local.kind !== 'import') return null;
  }
  if (dotted === 'Math.random' || RANDOM_CALL.test(last)) return 'random';
  if (/^v[1467]$/.test(last) && /uuid/i.test(path[0] ?? '')) return 'random';
  if (CLOCKS.has(dotted)) return 'clock';
  if (CLOCKS_BY_DEFAULT.has(dotted) && call.arguments.length === 0) return 'clock';
  return PROCESS_CALL.test(dotted) ? 'identity' : null;
}

/** `{ module: 'uuid', name: 'v4' }` of a name that is imported or required. */
function importedFrom(model: Model, identifier: Node): { module: string; name: string } | null {
  const binding = model.binding(identifier);
  if (binding === null) return null;
  const { node } = binding;
  if (node.type === 'ImportSpecifier' || node.type === 'ImportDefaultSpecifier') {
    const declaration = model.parent(node);
    if (declaration?.type !== 'ImportDeclaration') return null;
    const imported = node.type === 'ImportSpecifier' ? model.text(node.imported) : 'default';
    return { module: declaration.source.value, name: imported };
  }
  if (node.type !== 'VariableDeclarator' || node.init?.type !== 'CallExpression') return null;
  const [argument] = node.init.arguments;
  if (pathOf(node.init.callee).join('.') !== 'require' || argument?.type !== 'Literal') return null;
  return { module: String(argument.value), name: binding.path.at(-1) ?? 'default' };
}
