import { request as nodeRequest, type Agent, type IncomingHttpHeaders } from 'node:http';
import { hostname } from 'node:os';
import type { OpenAPIV3_1 } from 'openapi-types';
import { z } from 'zod';
import type { FuzzRequest } from './fuzz-requests.ts';
import type { Operation } from './openapi.ts';

/** An answer as it came. */
export interface FuzzAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
}

export interface SentHeaders {
  readonly authorization: string | null;
  readonly keys: readonly string[];
}

/** An order that no run answers ends after 10 s. */
const PATIENCE_MS = 15_000;

/** Sends a request byte for byte as it is described; a stream of events is left after its first bytes. */
export function sendFuzzed(
  server: { readonly url: URL; readonly agent: Agent },
  { method, target, type, body }: FuzzRequest,
  { authorization, keys }: SentHeaders,
): Promise<FuzzAnswer> {
  const bytes = body === null ? null : Buffer.from(body);
  return new Promise((resolve, reject) => {
    const outgoing = nodeRequest(
      {
        agent: server.agent,
        host: server.url.hostname,
        port: server.url.port,
        method,
        path: target,
        headers: {
          ...(authorization === null ? {} : { authorization }),
          ...(keys.length === 0 ? {} : { 'idempotency-key': [...keys] }),
          ...(type === null ? {} : { 'content-type': type }),
          ...(bytes === null ? {} : { 'content-length': bytes.length }),
        },
      },
      (incoming) => {
        const { statusCode: status = 0, headers } = incoming;
        let text = '';
        const done = (): void => resolve({ status, headers, text });
        incoming.setEncoding('utf8');
        incoming.on('data', (chunk: string) => {
          text += chunk;
          if (!isStream(headers)) return;
          done();
          outgoing.destroy();
        });
        incoming.once('end', done);
        incoming.once('error', reject);
      },
    );
    // After a destroyed stream it comes too late to matter.
    outgoing.once('error', reject);
    outgoing.setTimeout(PATIENCE_MS, () =>
      outgoing.destroy(new Error(`no answer to ${method} ${target} within ${PATIENCE_MS} ms`)),
    );
    outgoing.end(bytes ?? undefined);
  });
}

function isStream(headers: IncomingHttpHeaders): boolean {
  return (headers['content-type'] ?? '').startsWith('text/event-stream');
}

const problemSchema = z.strictObject({
  type: z.string(),
  title: z.string().min(1),
  status: z.int(),
  detail: z.string().min(1),
  code: z.string(),
  state: z.string().optional(),
  errors: z
    .array(
      z.strictObject({
        in: z.enum(['body', 'query', 'path', 'headers']),
        field: z.string(),
        line: z.int().optional(),
        problem: z.string().min(1),
      }),
    )
    .optional(),
});

const documentedCodes = z.object({
  properties: z.object({ code: z.object({ enum: z.array(z.string()) }) }),
});

/** What the answers of a server are held to. */
export interface FuzzRules {
  readonly document: OpenAPIV3_1.Document;
  /** never to be seen in an answer, but for the one that makes it */
  readonly secrets: readonly string[];
}

/** What is wrong with an answer; nothing, as it should be. */
export function faultsOf(
  { document, secrets }: FuzzRules,
  { operation: { operation, path } }: { readonly operation: Operation },
  { answer, sent, keys }: { answer: FuzzAnswer; sent: FuzzRequest; keys: readonly string[] },
): readonly string[] {
  const { status, headers, text } = answer;
  const type = headers['content-type'] ?? '';
  const problem = readProblem(answer);
  const faults: string[] = [];
  if (status === 500) faults.push('the server failed');
  const documented = Object.keys(operation.responses ?? {}).includes(String(status));
  if (!documented && !(leadsElsewhere(path, sent) && [404, 405].includes(status)))
    faults.push(`${status} is not documented`);
  const isProblem = type.startsWith('application/problem+json');
  if (status >= 400 && !isProblem) faults.push(`an error of type ${type}`);
  if (status < 400 && !isProblem && !isStream(headers) && !isJson(type, text))
    faults.push(`an answer of type ${type} that is no JSON`);
  if (isProblem && problem === null) faults.push('a problem of another shape');
  if (problem !== null) faults.push(...faultsOfProblem(document, problem, status));
  faults.push(...leaksOf(answer, { sent, hidden: [...secrets, ...keys] }));
  return faults;
}

/** The code of a problem; null for another answer. */
export function codeOf(answer: FuzzAnswer): string | null {
  return readProblem(answer)?.code ?? null;
}

function readProblem({ headers, text }: FuzzAnswer): z.infer<typeof problemSchema> | null {
  if (!(headers['content-type'] ?? '').startsWith('application/problem+json')) return null;
  try {
    return problemSchema.parse(JSON.parse(text));
  } catch {
    return null;
  }
}

function isJson(type: string, text: string): boolean {
  if (!type.startsWith('application/json')) return false;
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

function faultsOfProblem(
  { components }: OpenAPIV3_1.Document,
  { type, code, status }: z.infer<typeof problemSchema>,
  sentStatus: number,
): readonly string[] {
  const known: unknown = components?.schemas?.['Problem'];
  const codes = documentedCodes.parse(known).properties.code.enum;
  return [
    ...(codes.includes(code) ? [] : [`${code} is no code of the document`]),
    ...(type === `/problems#${code}` || type === `/idempotency#${code}` ? [] : [`type ${type}`]),
    ...(status === sentStatus ? [] : [`status ${status} in an answer of ${sentStatus}`]),
  ];
}

/** A part of the path is empty or has a slash of its own: then it is another path, or none. */
function leadsElsewhere(path: string, { target }: FuzzRequest): boolean {
  const [sent = ''] = target.split('?');
  const parts = sent.split('/');
  return parts.length !== path.split('/').length || parts.slice(1).includes('');
}

const LEAKS: readonly RegExp[] = [
  /\bat [^\n"]{1,80}:\d+:\d+/,
  /\b[\w-]+\.(?:ts|js|mjs|cjs|sql)\b/,
  /node_modules|file:\/\/|\/(?:src|home|tmp|root|usr|var|work)\//,
  /\b(?:SELECT|INSERT INTO|UPDATE|DELETE FROM)\s+\w/,
  /relation "|violates |constraint|syntax error|invalid byte sequence/i,
  /postgres(?:ql)?:|ECONN\w+|grpc|127\.0\.0\.1|localhost/i,
  /\[object |function \w*\(/,
];

/** Whatever of the inside an answer shows, unless the request said it first. */
function leaksOf(
  { headers, text }: FuzzAnswer,
  { sent, hidden }: { readonly sent: FuzzRequest; readonly hidden: readonly string[] },
): readonly string[] {
  const shown = `${JSON.stringify(headers)}\n${text}`;
  const said = `${sent.target} ${decoded(sent.target)} ${String(sent.body)}`;
  const patterns = LEAKS.flatMap((pattern) => {
    const [found] = pattern.exec(shown) ?? [];
    return found === undefined || said.includes(found) ? [] : [`shows ${JSON.stringify(found)}`];
  });
  const secrets = [hostname(), ...hidden].filter((one) => one.length > 3 && shown.includes(one));
  return [...patterns, ...secrets.map((one) => `shows the secret ${one.slice(0, 12)}…`)];
}

function decoded(target: string): string {
  try {
    return decodeURIComponent(target);
  } catch {
    return '';
  }
}
