import type { DatabaseReading } from './database-witness.ts';
import type { Finding, FindingKind } from './report.ts';
import type { ProviderSend } from './witnesses.ts';

interface KnownKey {
  readonly customerId: string;
  bodyHash: string | null;
  reported: boolean;
}

/**
 * Compares the provider's log of physical requests with what was recorded before each send: one key,
 * one body; each attempt under the key it was recorded with; nothing under our keys that is not recorded.
 */
export async function* compareSends(
  sends: AsyncIterable<ProviderSend>,
  { customers, attempts }: DatabaseReading,
): AsyncGenerator<Finding> {
  const keys = new Map<string, KnownKey>();
  for (const [customerId, { generations }] of customers) {
    for (const { key } of generations) {
      const before = keys.get(key);
      if (before !== undefined) {
        const both = `${before.customerId} and ${customerId}`;
        yield finding(
          'several_bodies',
          customerId,
          `${key} is stored for two requests, of ${both}`,
        );
      }
      keys.set(key, { customerId, bodyHash: null, reported: false });
    }
  }
  for await (const send of sends) {
    const known = keys.get(send.idempotencyKey);
    const recorded = send.attemptId === null ? undefined : attempts.get(send.attemptId);
    if (known === undefined) {
      if (recorded === undefined) continue;
      const customerId = keys.get(recorded)?.customerId ?? null;
      const message = `attempt ${send.attemptId} went out under ${send.idempotencyKey}, recorded is ${recorded}`;
      yield finding('attempt_differs', customerId, message);
      continue;
    }
    if (recorded !== send.idempotencyKey) {
      const message = `${send.endpoint} under ${send.idempotencyKey}: attempt ${send.attemptId ?? '(none)'} is not recorded for this key`;
      yield finding('attempt_differs', known.customerId, message);
    }
    if (send.bodyHash === null) continue;
    // Endpoint and bytes together: a key is bound to both.
    const body = `${send.endpoint} ${send.bodyHash}`;
    known.bodyHash ??= body;
    if (known.bodyHash === body || known.reported) continue;
    known.reported = true;
    const message = `${send.idempotencyKey} was sent as ${known.bodyHash} and as ${body}`;
    yield finding('several_bodies', known.customerId, message);
  }
}

function finding(kind: FindingKind, customerId: string | null, message: string): Finding {
  return {
    kind,
    severity: 'disagreement',
    customerId,
    message,
    database: 'see charge_attempts',
    provider: 'see its request log',
    temporal: '-',
  };
}
