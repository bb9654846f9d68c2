/** The `error` object of a Stripe reply. */
export interface ErrorBody {
  readonly type: 'invalid_request_error' | 'card_error' | 'api_error' | 'idempotency_error';
  readonly code?: string;
  readonly message: string;
  readonly param?: string;
  readonly decline_code?: string;
  readonly advice_code?: string;
  readonly network_decline_code?: string;
  readonly network_advice_code?: string;
  readonly charge?: string;
  readonly payment_intent?: unknown;
  readonly payment_method?: unknown;
}

/** A refusal by the API. Thrown before execution it is not saved under the key; thrown by the execution it is. */
export class ApiError extends Error {
  readonly status: number;
  readonly body: ErrorBody;
  readonly headers: Readonly<Record<string, string>>;

  constructor(status: number, body: ErrorBody, headers: Readonly<Record<string, string>> = {}) {
    super(body.message);
    this.name = 'ApiError';
    this.status = status;
    this.body = body;
    this.headers = headers;
  }
}

/** 400 for a parameter. */
export function badParameter(param: string, message: string, code?: string): ApiError {
  const base = { type: 'invalid_request_error', message, param } as const;
  return new ApiError(400, code === undefined ? base : { ...base, code });
}

/** An object named in a parameter (400) or in the path (404) does not exist. */
export function missing(
  what: string,
  id: string,
  where: { param: string; status: 400 | 404 },
): ApiError {
  return new ApiError(where.status, {
    type: 'invalid_request_error',
    code: 'resource_missing',
    message: `No such ${what}: '${id}'`,
    param: where.param,
  });
}

/** 401, by what was wrong with the credentials. */
export function unauthorized(message: string): ApiError {
  return new ApiError(401, { type: 'invalid_request_error', message });
}

/** 500: says nothing about whether the charge took effect. */
export function serverError(headers: Readonly<Record<string, string>> = {}): ApiError {
  const message = 'An unknown error occurred. Contact support if it persists.';
  return new ApiError(500, { type: 'api_error', message }, headers);
}

/** 502, 503, 504: a gateway in front of the API. */
export function gatewayError(status: number, headers: Readonly<Record<string, string>>): ApiError {
  return new ApiError(status, { type: 'api_error', message: `Gateway error ${status}.` }, headers);
}

/** 429 of the limiter; the reason is one of Stripe's five. */
export function rateLimited(
  reason: string,
  headers: Readonly<Record<string, string>> = {},
): ApiError {
  const message = 'Request rate limit exceeded. Learn more about rate limits in the documentation.';
  return new ApiError(
    429,
    { type: 'invalid_request_error', code: 'rate_limit', message },
    { 'Stripe-Rate-Limited-Reason': reason, ...headers },
  );
}

/** 429 because another request holds the object. Unlike the limiter's, it asks to be sent again. */
export function lockTimeout(headers: Readonly<Record<string, string>> = {}): ApiError {
  const message =
    'This object cannot be accessed right now because another API request or Stripe process is currently accessing it.';
  return new ApiError(
    429,
    { type: 'invalid_request_error', code: 'lock_timeout', message },
    { 'Stripe-Should-Retry': 'true', ...headers },
  );
}

/** 409 while the first request with this key is still running. */
export function keyInUse(
  key: string | undefined,
  headers: Readonly<Record<string, string>> = {},
): ApiError {
  const message =
    'There is currently another in-progress request using this Idempotency Key ' +
    `(that probably means you submitted twice, and the other request is still going through): ${key ?? '(none)'}.`;
  return new ApiError(
    409,
    { type: 'invalid_request_error', code: 'idempotency_key_in_use', message },
    headers,
  );
}

/** 400: the key belongs to another request, by endpoint or by parameters. */
export function keyMismatch(
  key: string,
  what: 'endpoint' | 'parameters',
  firstPath: string,
): ApiError {
  const message =
    what === 'endpoint'
      ? `Keys for idempotent requests can only be used for the same endpoint they were first used for ('${firstPath}'). Try using a key other than '${key}' if you meant to execute a different request.`
      : `Keys for idempotent requests can only be used with the same parameters they were first used with. Try using a key other than '${key}' if you meant to execute a different request.`;
  return new ApiError(400, { type: 'idempotency_error', message });
}
