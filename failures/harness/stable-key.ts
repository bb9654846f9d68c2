import { createHash } from 'node:crypto';

/**
 * A key made of the business alone: the same parts give the same key, in every process and on every day. Each part is
 * framed by its length, so that no two lists of parts meet.
 */
export function stableKey(...parts: readonly string[]): string {
  const hash = createHash('sha256');
  for (const part of parts) hash.update(`${Buffer.byteLength(part)}:${part},`);
  return hash.digest('hex');
}
