import { createHash } from 'node:crypto';

/**
 * What an intent is known by when the reply that named it was lost: SHA-256 over its metadata, entries sorted and
 * each part framed by its length. Pure: the form body of a create and the metadata that Stripe shows of the intent
 * give the same bytes. Entries without a value are left out, since Stripe keeps none.
 */
export function marksOf(metadata: Iterable<readonly [name: string, value: string]>): Buffer {
  const entries = [...metadata].filter(([, value]) => value !== '').sort(byName);
  return sha256Framed(entries.flat());
}

/** SHA-256 over parts, each framed by its length in bytes, so that no two lists run together. Pure. */
export function sha256Framed(parts: readonly (string | Buffer)[]): Buffer {
  const hash = createHash('sha256');
  for (const part of parts) {
    const bytes = typeof part === 'string' ? Buffer.from(part, 'utf8') : part;
    hash.update(`${bytes.length}:`).update(bytes);
  }
  return hash.digest();
}

/** By code unit: the same on every machine, whatever its locale. */
function byName([a]: readonly [string, string], [b]: readonly [string, string]): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
