import { createHash, type Hash } from 'node:crypto';
import canonicalize from 'canonicalize';

/** What makes two requests the same one. */
export interface RequestParts {
  readonly method: string;
  /** as it stood in the request line, query included */
  readonly url: string;
  readonly contentType: string;
  readonly body: Buffer;
}

/**
 * `bytes`: another order of a JSON object's members is another request. `canonical-json`: bodies of a JSON type are
 * compared by their value, in the form of RFC 8785.
 */
export type FingerprintMode = 'bytes' | 'canonical-json';

const VERSION = 'chargeonce idempotency fingerprint 1';
/** Bytes that are no UTF-8 become no replacement character here: two bodies would share it. */
const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
const JSON_TYPE = /^application\/(?:[\w.+-]+\+)?json\s*(?:;|$)/i;

/**
 * SHA-256 over a frame for each part: its length in bytes, a colon, the bytes, a comma. Framed, because parts that are
 * only joined let two requests share one value.
 */
export function fingerprint(parts: RequestParts, mode: FingerprintMode = 'bytes'): Buffer {
  const at = parts.url.indexOf('?');
  const path = at === -1 ? parts.url : parts.url.slice(0, at);
  // No query and an empty one are two requests.
  const query = at === -1 ? '' : parts.url.slice(at);
  const canonical = mode === 'canonical-json' ? canonicalBody(parts) : null;
  const hash = createHash('sha256');
  for (const part of [VERSION, parts.method, path, query, parts.contentType]) frame(hash, part);
  frame(hash, canonical === null ? 'bytes' : 'jcs');
  frame(hash, canonical ?? parts.body);
  return hash.digest();
}

/** null where the bytes have to stand for themselves: another type, or no JSON at all. */
function canonicalBody({ contentType, body }: RequestParts): string | null {
  if (!JSON_TYPE.test(contentType)) return null;
  try {
    return canonicalize(JSON.parse(UTF8.decode(body))) ?? null;
  } catch {
    return null;
  }
}

function frame(hash: Hash, part: string | Buffer): void {
  const bytes = typeof part === 'string' ? Buffer.from(part) : part;
  hash.update(`${bytes.length}:`).update(bytes).update(',');
}
