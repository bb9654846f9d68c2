import { ApplicationFailure } from '@temporalio/common';
import { isRetryable } from '../db/sqlstate.ts';
import { EnvironmentMismatch } from '../db/environment.ts';
import { RequestIdReused } from '../db/reruns.ts';
import { NoCustomers } from '../db/runs.ts';
import { FAILURES, type FailureType } from '../domain/failures.ts';
import { IdempotencyKeyMissing } from '../payments/key-guard.ts';
import { VaultRefused, VaultUnavailable } from '../payments/vault-client.ts';

/** "Try again", under a catalogue type; the retry policy decides when, unless Stripe said it. */
export function tryAgain(
  type: FailureType,
  message: string,
  retryAfterMs?: number | null,
): ApplicationFailure {
  return ApplicationFailure.create({
    type,
    message,
    nonRetryable: false,
    ...(retryAfterMs == null ? {} : { nextRetryDelay: retryAfterMs }),
  });
}

/** "Stop": no retry can help. */
export function stop(type: FailureType, message: string, cause?: Error): ApplicationFailure {
  return ApplicationFailure.create({
    type,
    message,
    nonRetryable: true,
    ...(cause === undefined ? {} : { cause }),
  });
}

/** Runs an activity's body and gives whatever it throws its place in the catalogue. */
export async function withFailures<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw toFailure(error);
  }
}

function toFailure(error: unknown): ApplicationFailure {
  if (error instanceof ApplicationFailure) return error;
  const cause = error instanceof Error ? error : new Error(String(error));
  if (cause instanceof NoCustomers) return stop(FAILURES.noCustomers, cause.message, cause);
  if (cause instanceof RequestIdReused) return stop(FAILURES.invalidMessage, cause.message, cause);
  if (cause instanceof IdempotencyKeyMissing)
    return stop(FAILURES.keyMissing, cause.message, cause);
  if (cause instanceof EnvironmentMismatch)
    return stop(FAILURES.environmentMismatch, cause.message, cause);
  if (cause instanceof VaultUnavailable) return tryAgain(FAILURES.vaultUnavailable, cause.message);
  if (cause instanceof VaultRefused) return stop(FAILURES.vaultRefused, cause.message, cause);
  if (isRetryable(cause)) {
    return ApplicationFailure.create({
      type: FAILURES.databaseUnavailable,
      message: cause.message,
      cause,
    });
  }
  // A constraint refused, or a row is not what the code believes: a person must look.
  return stop(FAILURES.invariantBroken, cause.message, cause);
}
