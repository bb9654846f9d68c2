import { createHash, randomUUID } from 'node:crypto';

/** A new opaque id, `pi_3f0c…`: 24 characters after the prefix, as Stripe's have. */
export function newId(prefix: string): string {
  return `${prefix}_${randomUUID().replaceAll('-', '').slice(0, 24)}`;
}

/** SHA-256 in hex, cut: for account ids and logs, not for secrets. */
export function shortHash(data: string | Buffer, length = 64): string {
  return createHash('sha256').update(data).digest('hex').slice(0, length);
}
