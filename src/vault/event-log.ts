import { assertNever } from '../domain/assert-never.ts';
import type { Log } from '../log.ts';
import type { RequestFacts, VaultEvent } from './events.ts';

/** One line per event that somebody may look for; what went well is for debugging. */
export function logEvent(log: Log, event: VaultEvent): void {
  switch (event.kind) {
    case 'refused': {
      const facts = { ...factsOf(event.request), code: event.code, status: event.status };
      log.info(facts, 'refused');
      return;
    }
    case 'forwarded':
      log.debug({ ...factsOf(event.request), spend: event.spendKind }, 'forwarded');
      return;
    case 'answered': {
      const { status, error, stripeRequestId, replayed, durationMs, effect } = event;
      const facts = { status, error, stripeRequestId, replayed, durationMs, effect };
      const level = status === null || effect === null ? 'warn' : 'debug';
      log[level]({ ...factsOf(event.request), ...facts }, 'answered');
      return;
    }
    case 'reply_mismatch':
      log.error({ ...factsOf(event.request), mismatch: event.mismatch }, 'a reply does not fit');
      return;
    case 'fault':
      log.error({ where: event.where, said: event.message }, 'something of the vault broke');
      return;
    case 'cap_crossed':
      // Its alert has a line of its own.
      return;
    default:
      assertNever(event);
  }
}

/** Names of the log's fields; the customer is not among them, the idempotency key leads there. */
function factsOf(request: RequestFacts) {
  const { requestId, keyId, method, path, idempotencyKey, attemptId } = request;
  return { requestId, vaultKey: keyId, method, path, idempotencyKey, attemptId };
}
