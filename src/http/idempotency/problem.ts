import type { FastifyReply } from 'fastify';

/** Why a request with, or without, a key was not carried out. Stable: clients may test them. */
export type ProblemCode =
  | 'idempotency-key-missing'
  | 'idempotency-key-malformed'
  | 'idempotency-key-reused'
  | 'idempotency-key-in-use'
  | 'idempotency-key-interrupted'
  | 'idempotency-store-unavailable'
  | 'body-not-fingerprintable'
  | 'body-too-large'
  | 'body-omitted';

/** What each problem is, in a few words. */
export const PROBLEM_TITLES: Readonly<Record<ProblemCode, string>> = {
  'idempotency-key-missing': 'This request needs an Idempotency-Key',
  'idempotency-key-malformed': 'The Idempotency-Key cannot be read',
  'idempotency-key-reused': 'This Idempotency-Key was used for another request',
  'idempotency-key-in-use': 'The first request with this Idempotency-Key is still under way',
  'idempotency-key-interrupted': 'The first request with this Idempotency-Key broke off',
  'idempotency-store-unavailable': 'Nothing was done: the Idempotency-Key could not be kept',
  'body-not-fingerprintable': 'A body of this type cannot be compared with an earlier one',
  'body-too-large': 'The body is too large',
  'body-omitted': 'This was answered before, and the body of that answer was not kept',
};

export interface Problem {
  readonly status: number;
  readonly code: ProblemCode;
  readonly detail: string;
}

/**
 * Answers with a problem of RFC 9457. Its `type`, and the `Link` of draft-ietf-httpapi-idempotency-key-header, lead to
 * the published policy.
 */
export function sendProblem(
  reply: FastifyReply,
  policyUrl: string,
  problem: Problem,
): FastifyReply {
  return reply.send(writeProblem(reply, policyUrl, problem));
}

/** The same for an answer that is on its way already: sets status and headers, and returns the body. */
export function writeProblem(reply: FastifyReply, policyUrl: string, problem: Problem): string {
  reply
    .code(problem.status)
    .header('Content-Type', 'application/problem+json')
    .header('Link', `<${policyUrl}>; rel="describedby"`);
  return JSON.stringify(problemBody(policyUrl, problem));
}

/** The members of a problem, as they are sent. */
function problemBody(policyUrl: string, { status, code, detail }: Problem) {
  return { type: `${policyUrl}#${code}`, title: PROBLEM_TITLES[code], status, detail, code };
}
