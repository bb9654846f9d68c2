import type { OpenAPIV3_1 } from 'openapi-types';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { IDEMPOTENCY_PROBLEMS } from '../../src/http/api/idempotency-rules.ts';
import { PROBLEMS } from '../../src/http/api/problem-table.ts';
import { startEngine, type Engine } from '../support/engine.ts';
import { startOperatorApi, type OperatorApi } from '../support/operator-api.ts';
import { operationsOf, readDocument, type Operation } from '../support/openapi.ts';

let engine: Engine;
let api: OperatorApi;
let document: OpenAPIV3_1.Document;
let operations: readonly Operation[];

beforeAll(async () => {
  engine = await startEngine();
  api = await startOperatorApi(engine.db);
  document = await readDocument(api.url);
  operations = operationsOf(document);
});
afterAll(async () => {
  await api.close();
  await engine.close();
});

/** Every `$ref` of a value. */
function refsIn(value: unknown): string[] {
  if (Array.isArray(value)) return value.flatMap((part) => refsIn(part));
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([name, part]) =>
    name === '$ref' && typeof part === 'string' ? [part] : refsIn(part),
  );
}

function at(pointer: string): unknown {
  let value: unknown = document;
  for (const part of pointer.replace(/^#\//, '').split('/'))
    value =
      typeof value === 'object' && value !== null && part in value
        ? Reflect.get(value, part)
        : undefined;
  return value;
}

describe('/openapi.json', () => {
  it('is OpenAPI 3.1 whose references all lead somewhere', () => {
    expect(document.openapi).toBe('3.1.0');
    const refs = refsIn(document);
    expect(refs.length).toBeGreaterThan(20);
    expect(refs.filter((ref) => at(ref) === undefined)).toEqual([]);
  });

  it('describes every route under /v1, each with a role, a summary and a name of its own', () => {
    const paths = operations.map(({ method, path }) => `${method} ${path}`);
    for (const path of ['post /v1/runs', 'get /v1/runs/{period}/events', 'get /v1/me'])
      expect(paths).toContain(path);
    expect(operations.filter(({ path }) => !path.startsWith('/v1/'))).toEqual([]);
    const names = operations.map(({ operation }) => operation.operationId);
    expect(new Set(names).size).toBe(names.length);
    const incomplete = operations.filter(
      ({ operation: { summary = '', tags = [] }, role }) =>
        !['viewer', 'operator', 'approver', 'admin'].includes(role) ||
        summary === '' ||
        tags.length !== 1,
    );
    expect(incomplete.map(({ operation }) => operation.operationId)).toEqual([]);
  });

  it('declares each parameter of a path', () => {
    for (const { path, operation } of operations) {
      const named = [...path.matchAll(/\{(\w+)\}/g)].map((match) => match[1]);
      const declared = (operation.parameters ?? []).flatMap((parameter) =>
        'in' in parameter && parameter.in === 'path' ? [parameter.name] : [],
      );
      expect({ path, names: new Set(declared) }).toEqual({ path, names: new Set(named) });
    }
  });

  it('asks for an Idempotency-Key exactly where something is changed', () => {
    const ref = '#/components/parameters/IdempotencyKey';
    for (const { method, operation } of operations) {
      const asks = (operation.parameters ?? []).some(
        (parameter) => '$ref' in parameter && parameter.$ref === ref,
      );
      const name = operation.operationId;
      expect({ name, asks }).toEqual({ name, asks: method !== 'get' });
      const statuses = Object.keys(operation.responses ?? {});
      const wanted = method === 'get' ? ['401', '403', '429', '503'] : ['401', '409', '422', '503'];
      expect({ name, missing: wanted.filter((one) => !statuses.includes(one)) }).toEqual({
        name,
        missing: [],
      });
    }
  });
});

describe('the pages', () => {
  const get = async (path: string) => {
    const answer = await fetch(new URL(path, api.url));
    return { status: answer.status, headers: answer.headers, text: await answer.text() };
  };

  it('explain every problem, under the anchor that its type leads to', async () => {
    const { text } = await get('/problems');
    for (const code of Object.keys({ ...PROBLEMS, ...IDEMPOTENCY_PROBLEMS }))
      expect(text).toContain(`<tr id="${code}">`);
    const policy = await get('/idempotency');
    expect(policy.text).toContain('24 h from its completion');
    for (const code of Object.keys(IDEMPOTENCY_PROBLEMS))
      expect(policy.text).toContain(`<tr id="${code}">`);
  });

  it('run no script but their own files, and load nothing from elsewhere', async () => {
    for (const path of ['/problems', '/idempotency', '/docs/']) {
      const { status, headers, text } = await get(path);
      expect({ path, status }).toEqual({ path, status: 200 });
      const policy = headers.get('content-security-policy') ?? '';
      expect(policy).toContain("default-src 'none'");
      expect(policy).toContain("frame-ancestors 'none'");
      expect(policy).not.toMatch(/script-src[^;]*(?:unsafe|https?:|\*)/);
      expect(text).not.toMatch(/<script(?![^>]*\bsrc=)/);
      expect(text).not.toMatch(/(?:src|href)="(?:https?:)?\/\//);
    }
  });

  it('browse the document offline', async () => {
    const { text } = await get('/docs/');
    const assets = [...text.matchAll(/(?:src|href)="(\.[^"]+)"/g)].map((match) => match[1] ?? '');
    expect(assets.length).toBeGreaterThan(4);
    for (const asset of assets) {
      const { status } = await get(new URL(asset, `${api.url}/docs/`).pathname);
      expect({ asset, status }).toEqual({ asset, status: 200 });
    }
    const served = await get('/docs/json');
    expect(JSON.parse(served.text)).toEqual(document);
  });
});
