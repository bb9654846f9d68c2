/** Longest request target; Stripe's longest list query of ours is far below it. */
const MAX_TARGET_LENGTH = 4_096;

/** Plain segments alone. No dot may stand in front, so no dot segment exists; nothing is decoded, so nothing is hidden. */
const PATH = /^\/v1(?:\/[A-Za-z0-9_-][A-Za-z0-9._-]*)+$/;

/** Paths are written down, and a key in one would be. */
const SECRET = /(?:[rsv]k_(?:test|live)|whsec)_/;

/** Printable ASCII without space, `#`, `"`, `<`, `>`, backslash and `^`, backtick, braces and bar. */
const QUERY = /^[!$%&'()*+,\-./0-9:;=?@A-Z[\]_a-z~]*$/;

/** A name of Stripe's begins with a letter. `_method=POST` would have a GET carried out as what it is not. */
const ODD_NAME = /(?:^\?|&|;|%26|%3B)(?:_|%5F)/i;

export type Target =
  /** query with its question mark, or '' */
  | { readonly ok: true; readonly path: string; readonly query: string }
  | { readonly ok: false; readonly code: 'bad_target' | 'query_on_post' };

/**
 * Reads the request target as it stood on the wire. Only plain origin-form paths under /v1/ pass: whatever another
 * parser could read in a second way (a host, an escape, a dot segment, a doubled slash) is refused. Pure, never throws.
 */
export function readTarget(raw: string, method: string): Target {
  if (raw.length > MAX_TARGET_LENGTH) return { ok: false, code: 'bad_target' };
  const mark = raw.indexOf('?');
  const path = mark === -1 ? raw : raw.slice(0, mark);
  const query = mark === -1 ? '' : raw.slice(mark);
  if (!PATH.test(path) || !QUERY.test(query) || ODD_NAME.test(query) || SECRET.test(path))
    return { ok: false, code: 'bad_target' };
  if (query !== '' && method !== 'GET') return { ok: false, code: 'query_on_post' };
  return { ok: true, path, query };
}
