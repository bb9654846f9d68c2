import type { OpenAPIV3_1 } from 'openapi-types';

const METHODS = ['get', 'put', 'post', 'patch', 'delete'] as const;

/** One operation of a document. */
export interface Operation {
  readonly method: (typeof METHODS)[number];
  readonly path: string;
  readonly role: string;
  readonly operation: OpenAPIV3_1.OperationObject;
}

/** The OpenAPI document of a server. */
export async function readDocument(url: string): Promise<OpenAPIV3_1.Document> {
  const answer = await fetch(`${url}/openapi.json`);
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- its tests look at every part
  return (await answer.json()) as OpenAPIV3_1.Document;
}

/** Every operation, with the role that it says it needs. */
export function operationsOf(document: OpenAPIV3_1.Document): readonly Operation[] {
  return Object.entries(document.paths ?? {}).flatMap(([path, item]) =>
    METHODS.flatMap((method) => {
      const operation = item?.[method];
      if (operation === undefined) return [];
      const role: unknown = Reflect.get(operation, 'x-required-role');
      return [{ method, path, role: typeof role === 'string' ? role : '', operation }];
    }),
  );
}

const EXAMPLES: Readonly<Record<string, string>> = {
  period: '2026-11',
  customer: 'c1',
  namespace: 'base',
};

/** A path with its parameters filled in by what has their form; ids by hex digits. */
export function examplePath(path: string): string {
  return path.replaceAll(/\{(\w+)\}/g, (_whole, name: string) => EXAMPLES[name] ?? '0'.repeat(16));
}
