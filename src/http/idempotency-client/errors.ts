/**
 * Why nothing was sent, or why it is not known what a send did (`no-answer`, `redirected`). Stable: code may switch
 * over it.
 */
export type IdempotencyClientErrorCode =
  /** a POST, PUT, PATCH or DELETE without a key */
  | 'key-missing'
  | 'key-malformed'
  /** a stream can be sent once only */
  | 'body-not-repeatable'
  /** the action's key has been sent with another request */
  | 'other-request'
  /** first sent so long ago that the server may have forgotten the key */
  | 'action-too-old'
  /** another action has begun under this name */
  | 'action-replaced'
  | 'storage-unusable'
  | 'redirected'
  /** whether it happened is unknown: send again with the same action */
  | 'no-answer';

export class IdempotencyClientError extends Error {
  override readonly name = 'IdempotencyClientError';
  readonly code: IdempotencyClientErrorCode;

  constructor(code: IdempotencyClientErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
