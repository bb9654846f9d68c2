import swagger from '@fastify/swagger';
import swaggerUi from '@fastify/swagger-ui';
import type { FastifyInstance, RouteOptions } from 'fastify';
import { jsonSchemaTransform, jsonSchemaTransformObject } from 'fastify-type-provider-zod';
import type { OpenAPIV3_1 } from 'openapi-types';
import { VERSION } from '../../version.ts';
import { KEY_MAX_LENGTH } from '../idempotency/key.ts';
import { IDEMPOTENCY_PROBLEMS } from './idempotency-rules.ts';
import { PROBLEMS, type ProblemCode, type ProblemKind } from './problem-table.ts';

const DOCUMENT = '/openapi.json';
const DOCS = '/docs';
const ROLE = 'x-required-role';
const CODES = 'x-problem-codes';
const SAFE = new Set(['GET', 'HEAD', 'OPTIONS']);

/** What any route may answer. */
const EVERYWHERE = [
  'token-missing',
  'token-invalid',
  'too-many-failures',
  'role-insufficient',
  'quota-exceeded',
  'parameter-invalid',
  'server-busy',
  'database-unavailable',
  'database-not-answering',
  'internal-error',
] as const satisfies ProblemCode[];
const WITH_BODY = [
  'body-unreadable',
  'request-too-large',
  'content-type-unsupported',
] as const satisfies ProblemCode[];

const ALL: Readonly<Record<string, ProblemKind>> = { ...PROBLEMS, ...IDEMPOTENCY_PROBLEMS };

/** The OpenAPI document of the routes that are registered after it, made of the schemas that they are checked by. */
export async function describeRoutes(app: FastifyInstance): Promise<void> {
  await app.register(swagger, {
    convertConstToEnum: false,
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'chargeonce operator API',
        version: VERSION,
        description:
          'Starts, shows and controls billing runs. Whatever changes something needs an Idempotency-Key and runs once for each. Errors are application/problem+json.',
        license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
      },
      security: [{ token: [] }],
      components: {
        securitySchemes: {
          token: {
            type: 'http',
            scheme: 'bearer',
            description: 'cot_…, made by "chargeonce tokens create"',
          },
        },
      },
    },
    transform: (from) => {
      const { schema, url } = jsonSchemaTransform(from);
      if (schema.hide === true) return { schema, url };
      return { schema: { ...schema, ...extensionsOf(from.route) }, url };
    },
    transformObject: (from) => {
      // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the version that is asked for above
      return complete(jsonSchemaTransformObject(from) as OpenAPIV3_1.Document);
    },
  });
}

/** `/openapi.json`, and `/docs` to browse it; nothing is loaded from elsewhere. Register after {@link describeRoutes}. */
export async function registerDocs(app: FastifyInstance): Promise<void> {
  app.get(DOCUMENT, { schema: { hide: true } }, (_request, reply) =>
    reply.header('Content-Type', 'application/json; charset=utf-8').send(app.swagger()),
  );
  await app.register(swaggerUi, {
    routePrefix: DOCS,
    theme: { title: 'chargeonce operator API' },
    uiConfig: { layout: 'BaseLayout', tryItOutEnabled: false, persistAuthorization: false },
    staticCSP: {
      'default-src': "'none'",
      'script-src': "'self'",
      // The page sets styles of its elements while it runs.
      'style-src': "'self' 'unsafe-inline'",
      'img-src': "'self' data:",
      'connect-src': "'self'",
      'base-uri': "'none'",
      'form-action': "'none'",
      'frame-ancestors': "'none'",
    },
  });
}

function extensionsOf({ config, method, url, schema }: RouteOptions): Record<string, unknown> {
  const codes: string[] = [...EVERYWHERE, ...(config?.problems ?? [])];
  if (codes.includes('temporal-unavailable')) codes.push('temporal-not-answering');
  if (url.includes(':')) codes.push('path-invalid');
  if (schema?.body !== undefined) codes.push(...WITH_BODY);
  if (!SAFE.has(String(method)) && config?.idempotency !== false)
    // A repeat without its body has the status of the first answer, which stands there already.
    codes.push(...Object.keys(IDEMPOTENCY_PROBLEMS).filter((code) => code !== 'body-omitted'));
  return { [ROLE]: config?.access, [CODES]: codes };
}

const METHODS = ['get', 'put', 'post', 'patch', 'delete'] as const;

/** Adds what every operation has: its name, the key header, and its problems by status. */
function complete(document: OpenAPIV3_1.Document): OpenAPIV3_1.Document {
  for (const [path, item] of Object.entries(document.paths ?? {})) {
    for (const method of METHODS) {
      const operation: (OpenAPIV3_1.OperationObject & Record<string, unknown>) | undefined =
        item?.[method];
      if (operation === undefined) continue;
      operation.operationId = operationIdOf(method, path);
      const codes = Array.isArray(operation[CODES]) ? operation[CODES].map(String) : [];
      delete operation[CODES];
      if (codes.includes('idempotency-key-missing'))
        operation.parameters = [
          ...(operation.parameters ?? []),
          { $ref: '#/components/parameters/IdempotencyKey' },
        ];
      for (const answer of Object.values(operation.responses ?? {}))
        if ('description' in answer && answer.description === 'Default Response')
          answer.description = 'Done';
      operation.responses = { ...operation.responses, ...responsesOf(codes) };
    }
  }
  document.components = {
    ...document.components,
    schemas: { ...usedSchemas(document), Problem: PROBLEM_SCHEMA },
    parameters: { IdempotencyKey: KEY_PARAMETER },
  };
  return document;
}

/** Schemas come in two forms, as they are sent and as they are answered; what nobody refers to is left out. */
function usedSchemas(document: OpenAPIV3_1.Document): Record<string, OpenAPIV3_1.SchemaObject> {
  const schemas = document.components?.schemas ?? {};
  const used = new Map<string, OpenAPIV3_1.SchemaObject>();
  const follow = (value: unknown): void => {
    for (const [, name = ''] of JSON.stringify(value).matchAll(
      /"#\/components\/schemas\/(\w+)"/g,
    )) {
      const schema = schemas[name];
      if (schema === undefined || used.has(name)) continue;
      used.set(name, schema);
      follow(schema);
    }
  };
  follow(document.paths);
  return Object.fromEntries(used);
}

/** `post /v1/runs/{period}/pause` → `postRunsPeriodPause`. */
function operationIdOf(method: string, path: string): string {
  const words = path.split(/[^A-Za-z0-9]+/).filter((word) => word !== '' && word !== 'v1');
  return method + words.map((word) => word.charAt(0).toUpperCase() + word.slice(1)).join('');
}

function responsesOf(codes: readonly string[]): OpenAPIV3_1.ResponsesObject {
  const byStatus = Map.groupBy(new Set(codes), (code) => ALL[code]?.status ?? 500);
  return Object.fromEntries(
    [...byStatus].map(([status, group]) => [
      String(status),
      {
        description: group.map((code) => `\`${code}\`: ${ALL[code]?.title ?? ''}`).join('\n\n'),
        content: {
          'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' } },
        },
      },
    ]),
  );
}

const KEY_PARAMETER: OpenAPIV3_1.ParameterObject = {
  name: 'Idempotency-Key',
  in: 'header',
  required: true,
  description: 'One per action, kept for every retry of it; the rules: /idempotency',
  schema: { type: 'string', minLength: 1, maxLength: KEY_MAX_LENGTH, pattern: '^[\\x20-\\x7e]+$' },
  example: '5f0c6a52-3c1e-4c55-9f0e-0d8a3c1f6b7e',
};

const PROBLEM_SCHEMA: OpenAPIV3_1.SchemaObject = {
  type: 'object',
  description: 'RFC 9457',
  required: ['type', 'title', 'status', 'detail', 'code'],
  properties: {
    type: { type: 'string', format: 'uri-reference' },
    title: { type: 'string' },
    status: { type: 'integer' },
    detail: { type: 'string', description: 'For people' },
    code: { type: 'string', description: 'Stable: may be tested', enum: Object.keys(ALL).sort() },
    state: { type: 'string', description: 'How things stand, of some 409' },
    errors: {
      type: 'array',
      description: 'Each field that is wrong',
      items: {
        type: 'object',
        required: ['in', 'field', 'problem'],
        properties: {
          in: { type: 'string', enum: ['body', 'query', 'path', 'headers'] },
          field: { type: 'string' },
          problem: { type: 'string' },
        },
      },
    },
  },
};
