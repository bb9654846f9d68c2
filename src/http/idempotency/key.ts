import { parseItem } from 'structured-headers';

/** Longest key, as at Stripe (docs.stripe.com/api/idempotent_requests). */
export const KEY_MAX_LENGTH = 255;

export type KeyReading =
  | { readonly kind: 'key'; readonly key: string }
  | { readonly kind: 'missing' }
  | { readonly kind: 'malformed'; readonly problem: string };

const PRINTABLE = /^[\x20-\x7e]*$/;
/** What HTTP lets stand around a value. `trim` takes more, a no-break space for one, and would hide it. */
const BLANK = new Set([' ', '\t']);
/** What makes a bare value a list, a parameter or half a string; inside quotes all of them are letters. */
const STRUCTURE = /[",;]/;

/**
 * Reads the `Idempotency-Key` lines of one request. Accepted: a String of RFC 8941 (`"k"`, as
 * draft-ietf-httpapi-idempotency-key-header wants it) and the bare value that Stripe's clients send; both are the same
 * key. Everything that could be read in two ways is malformed.
 */
export function readKey(lines: readonly string[] | undefined): KeyReading {
  const [line] = lines ?? [];
  if (line === undefined) return { kind: 'missing' };
  if (lines !== undefined && lines.length > 1) return malformed('is there more than once');
  const value = withoutBlanks(line);
  if (value === '') return malformed('is empty');
  if (!PRINTABLE.test(value)) return malformed('has a character that is not printable ASCII');
  const key = value.startsWith('"') ? unquote(value) : bare(value);
  if (key === null) return malformed('is neither one quoted string nor one bare value');
  if (key === '') return malformed('is empty');
  if (key.length > KEY_MAX_LENGTH)
    return malformed(`has ${key.length} characters; at most ${KEY_MAX_LENGTH} are allowed`);
  return { kind: 'key', key };
}

function withoutBlanks(line: string): string {
  let start = 0;
  let end = line.length;
  while (start < end && BLANK.has(line.charAt(start))) start += 1;
  while (end > start && BLANK.has(line.charAt(end - 1))) end -= 1;
  return line.slice(start, end);
}

function bare(value: string): string | null {
  return STRUCTURE.test(value) ? null : value;
}

function unquote(value: string): string | null {
  try {
    const [item, parameters] = parseItem(value);
    return typeof item === 'string' && parameters.size === 0 ? item : null;
  } catch {
    return null;
  }
}

function malformed(problem: string): KeyReading {
  return { kind: 'malformed', problem };
}
