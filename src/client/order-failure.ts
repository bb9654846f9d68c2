import {
  isGrpcServiceError,
  ServiceError,
  WorkflowNotFoundError,
  WorkflowUpdateFailedError,
  WorkflowUpdateRPCTimeoutOrCancelledError,
} from '@temporalio/client';

/** Why an order to a run came to nothing, as far as its error tells. */
export type OrderFailure =
  /** the run itself said no, and why */
  | { readonly kind: 'refused'; readonly said: string }
  /** whether it was taken is not known: no worker answered in time, or the connection broke */
  | { readonly kind: 'noAnswer' }
  /** the run has too many orders to answer; this one was not taken */
  | { readonly kind: 'busy' }
  | { readonly kind: 'notFound' };

/** gRPC's codes for an answer that did not come: CANCELLED, DEADLINE_EXCEEDED, UNAVAILABLE; and RESOURCE_EXHAUSTED. */
const NO_ANSWER: ReadonlySet<number> = new Set([1, 4, 14]);
const TOO_MANY: ReadonlySet<number> = new Set([8]);

/** What the error of an update says about its order; null for an error of another kind. Pure. */
export function orderFailureOf(error: unknown): OrderFailure | null {
  if (error instanceof WorkflowNotFoundError) return { kind: 'notFound' };
  if (error instanceof WorkflowUpdateFailedError)
    return { kind: 'refused', said: error.cause?.message ?? 'the run gave no reason' };
  if (error instanceof WorkflowUpdateRPCTimeoutOrCancelledError) return { kind: 'noAnswer' };
  const cause = error instanceof ServiceError ? error.cause : error;
  if (!isGrpcServiceError(cause)) return null;
  if (TOO_MANY.has(cause.code)) return { kind: 'busy' };
  return NO_ANSWER.has(cause.code) ? { kind: 'noAnswer' } : null;
}
