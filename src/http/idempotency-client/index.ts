export {
  newUserAction,
  type KeyStorage,
  type UserAction,
  type UserActionOptions,
} from './action.ts';
export { IdempotencyClientError, type IdempotencyClientErrorCode } from './errors.ts';
export {
  idempotentFetch,
  type IdempotentFetch,
  type IdempotentFetchOptions,
  type IdempotentResponse,
} from './fetch.ts';
export type { FetchLike, IdempotentInit } from './request.ts';
export type { RetryPolicy } from './retry.ts';
