import type { ApiError } from './errors.ts';

/** What goes back to the client, before any fault of the wire. */
export interface Reply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

/** A reply with a JSON body; compact where Stripe's is indented, which no client can tell and costs less. */
export function jsonReply(
  status: number,
  value: unknown,
  headers: Readonly<Record<string, string>> = {},
): Reply {
  return { status, headers, body: Buffer.from(JSON.stringify(value)) };
}

/** The reply of a refused request. */
export function errorReply(error: ApiError): Reply {
  return jsonReply(error.status, { error: error.body }, error.headers);
}
