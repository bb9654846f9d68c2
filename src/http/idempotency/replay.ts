import type { FastifyReply } from 'fastify';
import type { Settings } from './options.ts';
import { writeProblem } from './problem.ts';
import type { FinalState, StoredResponse } from './store.ts';

/** Of what may be answered again, the headers that the handler set, each once. */
export function headersToStore(
  { storedHeaders }: Pick<Settings, 'storedHeaders'>,
  headers: Readonly<Record<string, unknown>>,
): StoredResponse['headers'] {
  return Object.entries(headers).flatMap(([name, value]) => {
    if (!storedHeaders.has(name.toLowerCase())) return [];
    const values = Array.isArray(value) ? value : [value];
    return values
      .filter((one) => one !== undefined && one !== null)
      .map((one): [string, string] => [name.toLowerCase(), String(one)]);
  });
}

/** A 5xx is labelled, and answered again all the same. */
export function finalState(status: number): FinalState {
  return status >= 500 ? 'FAILED' : 'COMPLETED';
}

/**
 * Sets status and headers of a stored response and returns its body. One whose body was not kept has the status and
 * headers of the first answer, and a problem in place of the body.
 */
export function answerAgain(
  { policyUrl }: Pick<Settings, 'policyUrl'>,
  reply: FastifyReply,
  stored: StoredResponse,
): Buffer | string | undefined {
  reply.code(stored.status);
  const names = new Set<string>();
  for (const [name, value] of stored.headers) {
    // A second line of the same name is added to the first.
    if (names.has(name)) reply.header(name, [reply.getHeader(name), value].flat().map(String));
    else reply.header(name, value);
    names.add(name);
  }
  reply.header('Idempotent-Replayed', 'true');
  if (stored.body === null) {
    for (const name of OF_THE_BODY) reply.removeHeader(name);
    return writeProblem(reply, policyUrl, {
      status: stored.status,
      code: 'body-omitted',
      detail:
        'The first answer had this status and these headers. Its body was too large or too secret to keep: read the resource instead of repeating the request.',
    });
  }
  return stored.body.length === 0 ? undefined : stored.body;
}

/** They describe a body that is not sent. */
const OF_THE_BODY = [
  'content-encoding',
  'content-language',
  'content-disposition',
  'etag',
  'last-modified',
];
