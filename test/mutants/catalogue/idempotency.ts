import { http, unit } from '../catchers.ts';
import type { Mutant } from '../mutant.ts';

const CLAIM = 'migrations/0013_idempotency-records.sql';
const STORE = 'src/http/idempotency/postgres-store.ts';
const PLUGIN = 'src/http/idempotency/plugin.ts';
const COURSE = 'src/http/idempotency/course.ts';
const IS_MISMATCH = 'IF record.fingerprint <> p_fingerprint THEN';
const LEASE_OVER =
  "AND state = 'IN_PROGRESS' AND lease_until <= now() AND fence = record.fence AND";
const IN_FLIGHT =
  'answers 409 with Retry-After to the same request and 422 to another, and the first is not disturbed';

/** The Idempotency-Key layer: who has a key, what is stored, and when it ends. */
export const IDEMPOTENCY: readonly Mutant[] = [
  {
    id: 'M16',
    bug: 'a fingerprint is compared with a stored response only',
    edits: [
      {
        file: CLAIM,
        find: IS_MISMATCH,
        replace: "IF record.state <> 'IN_PROGRESS' AND record.fingerprint <> p_fingerprint THEN",
      },
    ],
    catcher: http('idempotency-plugin', IN_FLIGHT),
  },
  {
    id: 'takeover-of-any-request',
    bug: 'a takeover does not ask whether the request is the same',
    edits: [
      {
        file: CLAIM,
        find: IS_MISMATCH,
        replace:
          "IF record.fingerprint <> p_fingerprint AND (record.state <> 'IN_PROGRESS' OR record.lease_until > now()) THEN",
      },
      {
        file: CLAIM,
        find: 'AND fence = record.fence AND fingerprint = p_fingerprint;',
        replace: 'AND fence = record.fence;',
      },
    ],
    catcher: http(
      'idempotency-store',
      'is answered although the row is locked, whatever its state',
    ),
  },
  {
    id: 'takeover-of-a-live-lease',
    bug: 'a key is taken over from a holder that is there',
    edits: [
      { file: CLAIM, find: 'IF record.lease_until > now() THEN', replace: 'IF false THEN' },
      {
        file: CLAIM,
        find: LEASE_OVER,
        replace: "AND state = 'IN_PROGRESS' AND fence = record.fence AND",
      },
    ],
    catcher: http('idempotency-plugin', IN_FLIGHT),
  },
  {
    id: 'takeover-unchecked',
    bug: 'a takeover does not look again at what it has read',
    edits: [
      {
        file: CLAIM,
        find: `${LEASE_OVER} fingerprint = p_fingerprint;`,
        replace: 'AND fingerprint = p_fingerprint;',
      },
    ],
    catcher: http(
      'idempotency-store',
      'leaves a key whose holder came back between its read and its takeover',
    ),
  },
  {
    id: 'takeover-asked-again',
    bug: 'a try whose takeover lost its answer is told that it is the first',
    edits: [
      {
        file: CLAIM,
        find: "CASE WHEN record.taken_over THEN 'takenOver' ELSE 'claimed' END",
        replace: "'claimed'",
      },
    ],
    catcher: http('idempotency-store', 'leaves nothing that the same try cannot do again'),
  },
  {
    id: 'unfenced-answer',
    bug: 'an answer is stored whoever gives it',
    edits: [
      {
        file: STORE,
        find: `AND holder = $4 AND fence = $5
    AND state = 'IN_PROGRESS'`,
        replace: "AND $4::uuid IS NOT NULL AND $5::bigint > 0 AND state = 'IN_PROGRESS'",
      },
    ],
    catcher: http(
      'idempotency-history',
      'happens in PostgreSQL as if it had happened one after another',
    ),
  },
  {
    id: 'purged-in-flight',
    bug: 'the purge takes keys whose holder is gone',
    edits: [
      {
        file: STORE,
        find: "WHERE state <> 'IN_PROGRESS' AND expires_at <= now()\n    ORDER BY expires_at",
        replace: 'WHERE coalesce(expires_at, lease_until) <= now() ORDER BY expires_at',
      },
    ],
    catcher: http(
      'idempotency-store',
      'takes as many as it may, passes what is locked, and never takes a key in flight',
    ),
  },
  {
    id: 'purge-by-scan',
    bug: 'the purge has no index',
    edits: [
      {
        file: CLAIM,
        find: "CREATE INDEX idempotency_records_expiring ON idempotency_records (expires_at) WHERE state <> 'IN_PROGRESS';",
        replace: '',
      },
    ],
    catcher: http('idempotency-store', 'reads by an index, whatever is asked'),
  },
  {
    id: 'claim-beside-the-handler',
    bug: 'the handler does not wait for the claim',
    edits: [
      {
        file: PLUGIN,
        find: "app.addHook('preHandler', async (request, reply) => layer.claim(request, reply));",
        replace:
          "app.addHook('preHandler', async (request, reply) => void layer.claim(request, reply));",
      },
    ],
    catcher: http(
      'idempotency-plugin',
      'gives status, Location and body byte for byte, and runs nothing',
    ),
  },
  {
    id: 'one-tenant',
    bug: "a key is everybody's",
    edits: [
      {
        file: PLUGIN,
        find: 'const id: RecordId = { principal,',
        replace: "const id: RecordId = { principal: 'everybody',",
      },
    ],
    catcher: http('idempotency-plugin', 'of another tenant is another key'),
  },
  {
    id: 'given-back-on-throw',
    bug: 'a key is given back when its handler throws',
    edits: [
      {
        file: PLUGIN,
        find: 'const keeping = passage.began ?',
        replace: 'const keeping = passage.began && reply.statusCode !== 500 ?',
      },
    ],
    catcher: http(
      'idempotency-plugin',
      'gives the 500 of a handler that threw again, labelled FAILED, and does not run it again',
    ),
  },
  {
    id: 'given-back-when-gone',
    bug: 'a key is given back when its client has gone before the answer',
    edits: [
      {
        file: PLUGIN,
        find: 'const keeping = passage.began ?',
        replace: 'const keeping = passage.began && !reply.raw.destroyed ?',
      },
    ],
    catcher: http(
      'idempotency-faults',
      'that comes after its reply was returned is the one that is stored, although its client has gone',
    ),
  },
  {
    id: 'again-is-free',
    bug: 'a 503 after which the same request may run again gives its key to any request',
    edits: [
      {
        file: PLUGIN,
        find: "if (keeping === 'free') await",
        replace: 'if (true) await',
      },
    ],
    catcher: http(
      'idempotency-plugin',
      'is a 503 of a route that may run again: the same request does, and another one may not have the key',
    ),
  },
  {
    id: 'slow-is-gone',
    bug: 'a handler whose client has gone loses its key when it is merely slow',
    edits: [
      {
        file: COURSE,
        find: "if (state.settled || course === 'atWork') return;",
        replace: 'if (state.settled) return;',
      },
    ],
    catcher: http('idempotency-faults', 'keeps its key when its client has given up as well'),
  },
  {
    id: 'joined-fingerprint',
    bug: 'the parts of a fingerprint are joined without a frame',
    edits: [
      {
        file: 'src/http/idempotency/fingerprint.ts',
        find: "hash.update(`${bytes.length}:`).update(bytes).update(',');",
        replace: 'hash.update(bytes);',
      },
    ],
    catcher: unit(
      'http-idempotency-fingerprint',
      'is another one when a byte moves across a border between two parts',
    ),
    stoppedBy: 'Property failed after',
  },
];
