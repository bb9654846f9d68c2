import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { hasZodFastifySchemaValidationErrors } from 'fastify-type-provider-zod';
import { isDatabaseAway } from '../../db/sqlstate.ts';
import { orderFailureOf } from '../../client/order-failure.ts';
import type { Log } from '../../log.ts';
import { PROBLEMS, type ProblemCode } from './problem-table.ts';

/** A field that is wrong: where it stands, and what it should be. */
interface FieldProblem {
  readonly in: 'body' | 'query' | 'path' | 'headers';
  /** `customers[2].amount`, as one would write it; empty when it is the whole */
  readonly field: string;
  /** of a file: 1 is its first line; 0 the file as a whole */
  readonly line?: number;
  readonly problem: string;
}

/** What a problem says beside its code. The detail reaches the caller as it is. */
export interface ProblemText {
  /** what is wrong with this request, and what to do */
  readonly detail: string;
  readonly errors?: readonly FieldProblem[];
  /** how things stand, for a 409 */
  readonly state?: string;
  readonly retryAfterSeconds?: number;
}

/** Where each code is explained. */
export const PROBLEMS_PAGE = '/problems';

/** The members of a problem as they are sent (RFC 9457). */
function problemOf(code: ProblemCode, { detail, errors, state }: ProblemText): object {
  const { status, title } = PROBLEMS[code];
  return {
    type: `${PROBLEMS_PAGE}#${code}`,
    title,
    status,
    detail,
    code,
    ...(state === undefined ? {} : { state }),
    ...(errors === undefined ? {} : { errors }),
  };
}

/** What a reply of any route has; its own types allow what its schema names, and a problem is always allowed. */
type AnyReply = Pick<FastifyReply, 'raw'>;

/**
 * Answers with a problem of the table: `return problem(reply, 'run-unknown', 'nobody has planned 2026-11')`.
 */
export function problem<Reply extends AnyReply>(
  reply: Reply,
  code: ProblemCode,
  said: string | ProblemText,
): Reply {
  const text = typeof said === 'string' ? { detail: said } : said;
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a reply, whatever its route's schema types it as
  const plain = reply as unknown as FastifyReply;
  if (text.retryAfterSeconds !== undefined)
    void plain.header('Retry-After', String(text.retryAfterSeconds));
  void plain
    .code(PROBLEMS[code].status)
    .header('Content-Type', 'application/problem+json')
    .send(JSON.stringify(problemOf(code, text)));
  return reply;
}

/** Thrown where a reply is out of reach; the error handler answers with it. */
export class ApiProblem extends Error {
  override readonly name = 'ApiProblem';
  readonly code: ProblemCode;
  readonly text: ProblemText;
  readonly statusCode: number;

  constructor(code: ProblemCode, said: string | ProblemText) {
    const text = typeof said === 'string' ? { detail: said } : said;
    super(text.detail);
    this.code = code;
    this.text = text;
    this.statusCode = PROBLEMS[code].status;
  }
}

/** Turns whatever a request fails with into a problem. What went wrong inside is in the log and nowhere else. */
export function answerErrors(app: FastifyInstance, log: Log): void {
  app.setErrorHandler((error: FastifyError | ApiProblem, request, reply) => {
    if (error instanceof ApiProblem) return problem(reply, error.code, error.text);
    const status = error.statusCode ?? 500;
    if (status >= 400 && status < 500) return clientProblem(error, request, reply);
    const route = request.routeOptions.url;
    if (orderFailureOf(error)?.kind === 'noAnswer') {
      log.warn({ err: error, route }, 'Temporal did not answer an API request');
      return problem(reply, 'temporal-not-answering', {
        detail:
          'Temporal gave no answer in time, and may have done it; send the same request again, with the same Idempotency-Key',
        retryAfterSeconds: 5,
      });
    }
    if (isDatabaseAway(error)) {
      log.warn({ err: error, route }, 'the database did not answer an API request');
      return problem(reply, 'database-not-answering', {
        detail:
          'the database gave no answer, and something may have been done; send the same request again, with the same Idempotency-Key',
        retryAfterSeconds: 5,
      });
    }
    log.error({ err: error, route }, 'an API request failed');
    const detail =
      'what went wrong is in the log of the server; whether anything was done shows a GET';
    return problem(reply, 'internal-error', detail);
  });
}

/** What Fastify refuses before a handler is asked. */
function clientProblem(
  error: FastifyError,
  request: FastifyRequest,
  reply: FastifyReply,
): FastifyReply {
  if (hasZodFastifySchemaValidationErrors(error)) return invalidFields(error, request, reply);
  switch (error.code) {
    case 'FST_ERR_CTP_BODY_TOO_LARGE': {
      const limit = request.routeOptions.bodyLimit;
      return problem(reply, 'request-too-large', `a body of this route has at most ${limit} bytes`);
    }
    case 'FST_ERR_CTP_INVALID_MEDIA_TYPE':
      return problem(
        reply,
        'content-type-unsupported',
        'send the body as Content-Type: application/json, or as what the route names',
      );
    default:
      return problem(reply, 'body-unreadable', 'the body is not what its Content-Type says');
  }
}

const PARTS = { body: 'body', querystring: 'query', params: 'path', headers: 'headers' } as const;

function invalidFields(
  error: FastifyError,
  { body }: FastifyRequest,
  reply: FastifyReply,
): FastifyReply {
  if (error.validationContext === 'body' && (body === undefined || body === null))
    return problem(
      reply,
      'body-unreadable',
      'this request needs a body: JSON, with Content-Type: application/json',
    );
  const where = PARTS[error.validationContext ?? 'body'] ?? 'body';
  const errors = (error.validation ?? []).map(({ instancePath, message, params }) => ({
    in: where,
    field: fieldName(instancePath, params),
    problem: message ?? 'is not valid',
  }));
  const [first] = errors;
  const detail = errors
    .map(({ field, problem: said }) => (field === '' ? said : `${field}: ${said}`))
    .join('; ');
  const code = first?.in === 'path' ? 'path-invalid' : 'parameter-invalid';
  return problem(reply, code, { detail, errors });
}

/** `/customers/2/amount` as `customers[2].amount`; a name that is unknown is named itself. */
function fieldName(instancePath: string, params: Record<string, unknown>): string {
  const parts = instancePath.split('/').filter((part) => part !== '');
  const { keys } = params;
  if (Array.isArray(keys) && typeof keys[0] === 'string') parts.push(keys[0]);
  return parts
    .map((part, i) => (/^\d+$/.test(part) ? `[${part}]` : `${i === 0 ? '' : '.'}${part}`))
    .join('');
}
