import type { IncomingHttpHeaders } from 'node:http';
import { ApiError, unauthorized } from './errors.ts';
import { shortHash } from './ids.ts';

/** Who calls, by the key alone. */
export interface Caller {
  readonly account: string;
  readonly livemode: boolean;
}

/**
 * Any well-formed secret or restricted key is good. `sk_test_acctNAME_…` (or `acct_NAME_…`) belongs to `acct_NAME`, any
 * other to an account derived from what follows the mode, so that the sk_, rk_, test and live keys of one suffix share an
 * account (but not its objects: modes are apart). `…_revoked…` is refused with 401, `rk_…_readonly…` writes with 403.
 */
export function authenticate(headers: IncomingHttpHeaders, method: string): Caller {
  const key = readSecret(headers.authorization);
  if (key === undefined) {
    throw unauthorized(
      "You did not provide an API key. Use HTTP Bearer auth ('Authorization: Bearer YOUR_SECRET_KEY').",
    );
  }
  const parts = /^(sk|rk)_(test|live)_([A-Za-z0-9_]{1,200})$/.exec(key);
  const secret = parts?.[3];
  if (parts === null || secret === undefined) {
    throw unauthorized(`Invalid API Key provided: ${key.slice(0, 8)}***`);
  }
  if (secret.includes('revoked'))
    throw unauthorized(`Expired API Key provided: ${key.slice(0, 8)}***`);
  if (parts[1] === 'rk' && secret.startsWith('readonly') && method !== 'GET') {
    throw new ApiError(403, {
      type: 'invalid_request_error',
      message: 'The provided key does not have the required permissions for this endpoint.',
    });
  }
  const name = /^acct_?([A-Za-z0-9]+)_/.exec(secret)?.[1];
  const own = name === undefined ? `acct_${shortHash(secret, 16)}` : `acct_${name}`;
  const connected = headers['stripe-account'];
  const isConnect = typeof connected === 'string' && /^acct_[A-Za-z0-9]{1,64}$/.test(connected);
  return { account: isConnect ? connected : own, livemode: parts[2] === 'live' };
}

function readSecret(header: string | undefined): string | undefined {
  if (header === undefined) return undefined;
  const [scheme = '', value = ''] = header.split(' ', 2);
  if (/^bearer$/i.test(scheme)) return value;
  if (!/^basic$/i.test(scheme)) return undefined;
  return Buffer.from(value, 'base64').toString('utf8').split(':')[0];
}
