import type { Problem } from './problem.ts';

// What the layer says by itself: what is wrong, and what to do about it.

export const IN_USE: Problem = {
  status: 409,
  code: 'idempotency-key-in-use',
  detail:
    'Send the same request with the same key again after a while: it is answered with what the first one comes to.',
};

export const INTERRUPTED: Problem = {
  status: 409,
  code: 'idempotency-key-interrupted',
  detail:
    'The process that handled the first request is gone, and what it did is not known. It is not run again until somebody has looked. Do not send it with a new key.',
};

export const STORE_UNAVAILABLE: Problem = {
  status: 503,
  code: 'idempotency-store-unavailable',
  detail: 'Nothing was done. Send the same request with the same key again later.',
};

export const NOT_FINGERPRINTABLE: Problem = {
  status: 415,
  code: 'body-not-fingerprintable',
  detail:
    'Send a body that is read whole, such as JSON: the boundary of a multipart body differs from try to try, and a streamed one is not known before it is handled.',
};

export function missing(method: string): Problem {
  return {
    status: 400,
    code: 'idempotency-key-missing',
    detail: `Send ${method} with an Idempotency-Key header: a value of your own for this one action, for example a UUID, and the same one again when you retry it.`,
  };
}

export function malformed(problem: string): Problem {
  return {
    status: 400,
    code: 'idempotency-key-malformed',
    detail: `The Idempotency-Key header ${problem}. Send one value of 1 to 255 printable ASCII characters, bare or as a quoted string.`,
  };
}

export function reused(status: number): Problem {
  return {
    status,
    code: 'idempotency-key-reused',
    detail:
      'The first request with this key had another method, path, query, content type or body. Send that one again for its answer, or this one with a new key.',
  };
}

export function tooLarge(maxBytes: number): Problem {
  return {
    status: 413,
    code: 'body-too-large',
    detail: `At most ${maxBytes} bytes are taken with a key.`,
  };
}
