import fc from 'fast-check';
import type { OpenAPIV3_1 } from 'openapi-types';

type Schema = OpenAPIV3_1.SchemaObject | OpenAPIV3_1.ReferenceObject | boolean;

/** What nobody means well by, or only by mistake. None of it speaks of files or SQL that answers are searched for. */
const HOSTILE_TEXTS: readonly string[] = [
  '',
  ' ',
  '\u0000',
  'a\u0000b',
  '\ud800',
  'a\udfff\ud800b',
  '\u202e\u0085\u2028',
  '😀'.repeat(60),
  'x'.repeat(5_000),
  '__proto__',
  'constructor',
  'toString',
  "'; -- ",
  '${7*7}{{7*7}}%s%n',
  '../..',
  '2026-11/stop',
  '2026-11\r\nX-Injected: 1',
  '-1',
  'NaN',
  '1e400',
  '9'.repeat(400),
  'null',
  'true',
  '[]',
  '{}',
  '0x7f',
  'W10',
];

const HALF_CURSORS = [
  '["run","c1"]',
  '["run",{"$ne":1}]',
  '["imported","\\u0000"]',
  '["vault-key",9007199254740991,"0000000000000000"]',
  '["vault-key",1e400,"0000000000000000"]',
  '[1,"base","2026-11"]',
  '[-9007199254740991,"\\u0000","\\ud800"]',
  '[1,"b\\u0000",""]',
  '[[[]]]',
];
/** Cursors that no list has given out. */
export const CURSORS: readonly string[] = HALF_CURSORS.map((text) =>
  Buffer.from(text).toString('base64url'),
);

/** JSON texts of the wrong type or size, some of which `JSON.stringify` would never write. */
const HOSTILE_JSON: readonly string[] = [
  'null',
  'true',
  '0',
  '-0',
  '-1',
  '1.5',
  '1e400',
  '-1e400',
  '9007199254740993',
  '9'.repeat(400),
  '[]',
  '{}',
  '[[]]',
  '{"__proto__":1}',
  '{"constructor":{"prototype":{}}}',
  '"\\u0000"',
  '"\\ud800"',
  '"\ud83d"',
  `${'['.repeat(3_000)}${']'.repeat(3_000)}`,
  `[${'0,'.repeat(2_000)}0]`,
];

export const hostileText = fc.oneof(
  { weight: 4, arbitrary: fc.constantFrom(...HOSTILE_TEXTS) },
  { weight: 1, arbitrary: fc.string({ unit: 'binary', maxLength: 40 }) },
);
export const hostileJson = fc.oneof(
  { weight: 4, arbitrary: fc.constantFrom(...HOSTILE_JSON) },
  { weight: 1, arbitrary: fc.json({ stringUnit: 'binary', maxDepth: 3 }) },
  { weight: 1, arbitrary: hostileText.map((text) => JSON.stringify(text)) },
);

/** Values that a schema allows, some of them at its limits. By a member's name: those that lead somewhere. */
export class SchemaValues {
  readonly #schemas: Readonly<Record<string, Schema>>;
  readonly #known: Readonly<Record<string, readonly unknown[]>>;

  constructor(document: OpenAPIV3_1.Document, known: Readonly<Record<string, readonly unknown[]>>) {
    this.#schemas = document.components?.schemas ?? {};
    this.#known = known;
  }

  /** What a member of this name may be: mostly what leads somewhere. */
  named(name: string, schema: Schema | undefined): fc.Arbitrary<unknown> {
    const allowed = this.of(schema);
    const known = this.#known[name];
    if (known === undefined) return allowed;
    return fc.oneof(
      { weight: 8, arbitrary: fc.constantFrom(...known) },
      { weight: 1, arbitrary: allowed },
    );
  }

  of(schema: Schema | undefined): fc.Arbitrary<unknown> {
    if (schema === undefined || typeof schema === 'boolean') return fc.jsonValue({ maxDepth: 2 });
    if ('$ref' in schema) return this.of(this.#schemas[schema.$ref.split('/').at(-1) ?? '']);
    const choices = schema.oneOf ?? schema.anyOf;
    if (choices !== undefined) return fc.oneof(...choices.map((choice) => this.of(choice)));
    if ('const' in schema) return fc.constant(schema.const);
    if (schema.enum !== undefined) return fc.constantFrom<unknown>(...schema.enum);
    switch (schema.type) {
      case 'string':
        return textOf(schema);
      case 'integer': {
        const { minimum = -1_000, maximum = Number.MAX_SAFE_INTEGER } = schema;
        return fc.integer({ min: minimum, max: maximum });
      }
      case 'number':
        return fc.double({ noNaN: true, noDefaultInfinity: true });
      case 'boolean':
        return fc.boolean();
      case 'array':
        return fc.array(this.of(schema.items), { minLength: 1, maxLength: 4 });
      case 'object':
        return this.#object(schema);
      case 'null':
        return fc.constant(null);
      case undefined:
      default:
        return fc.jsonValue({ maxDepth: 2 });
    }
  }

  #object({ properties = {}, required = [] }: OpenAPIV3_1.SchemaObject): fc.Arbitrary<unknown> {
    const members = Object.entries(properties).map(
      ([name, schema]) => [name, this.named(name, schema)] as const,
    );
    return fc.record(Object.fromEntries(members), { requiredKeys: [...required] });
  }
}

function textOf(schema: OpenAPIV3_1.SchemaObject): fc.Arbitrary<unknown> {
  const { pattern, format, maxLength = 200, minLength = 0, examples = [] } = schema;
  if (format === 'date-time')
    return fc
      .date({ min: new Date('2026-01-01'), max: new Date('2036-01-01'), noInvalidDate: true })
      .map((at) => at.toISOString());
  const length = { minLength, maxLength: Math.min(maxLength, 600) };
  const free =
    pattern === undefined || pattern.startsWith('^[^')
      ? fc.string({ ...length, unit: 'grapheme', size: 'max' })
      : fc.stringMatching(new RegExp(pattern));
  const [example] = examples;
  if (example === undefined) return free;
  return fc.oneof({ weight: 3, arbitrary: fc.constant(example) }, { weight: 1, arbitrary: free });
}
