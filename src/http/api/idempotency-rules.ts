import { KEY_MAX_LENGTH } from '../idempotency/key.ts';
import { settingsOf, type IdempotencyOptions } from '../idempotency/options.ts';
import { PROBLEM_TITLES, type ProblemCode } from '../idempotency/problem.ts';
import type { ProblemKind } from './problem-table.ts';

/** Where the rules of Idempotency-Keys are published; problems of the layer name it. */
export const POLICY_PAGE = '/idempotency';

function kind(code: ProblemCode, status: number, explanation: string): ProblemKind {
  return { status, title: PROBLEM_TITLES[code], explanation };
}

/** What the Idempotency-Key layer answers by itself. */
export const IDEMPOTENCY_PROBLEMS: Readonly<Record<ProblemCode, ProblemKind>> = {
  'idempotency-key-missing': kind(
    'idempotency-key-missing',
    400,
    'Send one key per action: a UUID, made before the first try and kept for every retry.',
  ),
  'idempotency-key-malformed': kind(
    'idempotency-key-malformed',
    400,
    `A key has 1 to ${KEY_MAX_LENGTH} printable ASCII characters, bare or as a quoted string, in one header line.`,
  ),
  'idempotency-key-reused': kind(
    'idempotency-key-reused',
    422,
    'Another method, path, query, content type or body came first under this key. Use a new key for a new action.',
  ),
  'idempotency-key-in-use': kind(
    'idempotency-key-in-use',
    409,
    'Send the same request again after Retry-After: it gets the answer of the first one.',
  ),
  'idempotency-key-interrupted': kind(
    'idempotency-key-interrupted',
    409,
    'The process that handled the first request is gone, and what it did is not known. Look what was done before anything is sent under another key.',
  ),
  'idempotency-store-unavailable': kind(
    'idempotency-store-unavailable',
    503,
    'Nothing was done. Send the same request with the same key again.',
  ),
  'body-not-fingerprintable': kind(
    'body-not-fingerprintable',
    415,
    'A multipart or streamed body cannot be compared. Send it whole, as another type.',
  ),
  'body-too-large': kind('body-too-large', 413, 'Send less at once.'),
  'body-omitted': {
    ...kind(
      'body-omitted',
      200,
      'The request was carried out and answered before, with this status; the body was too large, or held a secret, and was not kept. Read the result with a GET.',
    ),
    statusText: 'as it was',
  },
};

interface Rule {
  readonly when: string;
  readonly rule: string;
}

const HOUR_MS = 3_600_000;

/** The times that the layer goes by, its defaults filled in. */
export function timesOf(options: Pick<IdempotencyOptions, 'store' | 'leaseMs' | 'retentionMs'>) {
  const { leaseMs, retentionMs } = settingsOf({
    ...options,
    policyUrl: POLICY_PAGE,
    principal: () => null,
  });
  return { leaseMs, retentionMs };
}

/** The rules as they are published. Retention and lease are those of this server. */
export function idempotencyRules(times: {
  readonly retentionMs: number;
  readonly leaseMs: number;
}): readonly Rule[] {
  const hours = Math.round(times.retentionMs / HOUR_MS);
  const seconds = Math.round(times.leaseMs / 1_000);
  return [
    {
      when: 'POST, PUT, PATCH or DELETE under /v1',
      rule: 'needs the header Idempotency-Key; GET and HEAD need none',
    },
    {
      when: 'scope',
      rule: 'a key belongs to the name of the token, for the whole API: the same key on another route is another request. A token that replaces one of the same name has its keys',
    },
    {
      when: 'the same request again, the first one is answered',
      rule: 'status, headers and body of the first answer, errors included, with Idempotent-Replayed: true. It uses no quota',
    },
    {
      when: 'the same request again, the first one is under way',
      rule: '409 idempotency-key-in-use, at once, with Retry-After',
    },
    {
      when: 'another request under the same key',
      rule: '422 idempotency-key-reused; method, path, query, content type and the bytes of the body are compared',
    },
    {
      when: 'what is kept',
      rule: `every answer of a handler that began, a refusal and a 5xx too, for ${hours} h from its completion. A corrected try needs a new key`,
    },
    {
      when: 'what is not kept',
      rule: '401, 429, parameters that are not valid, and whatever else was answered before the handler began: the key is free again',
    },
    {
      when: 'the process that handled the first request dies',
      rule: `after ${seconds} s the next try runs again where every effect has a key of its own, as all runs and charges have; elsewhere it answers 409 idempotency-key-interrupted until somebody has looked`,
    },
  ];
}
