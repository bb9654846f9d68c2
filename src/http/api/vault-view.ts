import type { z } from 'zod';
import { readBudgets, type VaultKey } from '../../db/vault-keys.ts';
import type { LogRow } from '../../db/vault-log.ts';
import { keyAnswer } from '../../vault-key-answer.ts';
import type { ApiDeps } from './deps.ts';
import type { vaultRequest } from './schemas/story.ts';
import type { vaultKey } from './schemas/vault.ts';

/** A vault key as the API shows it, with what is used of its caps now. */
export async function vaultKeyOf(
  { db, now }: Pick<ApiDeps, 'db' | 'now'>,
  key: VaultKey,
): Promise<z.input<typeof vaultKey>> {
  const {
    caps,
    allowed_endpoints: endpoints,
    ...rest
  } = keyAnswer(key, await readBudgets(db, key.keyId), now());
  return { ...rest, caps: [...caps], allowed_endpoints: [...endpoints] };
}

/** A row of the vault's log as the API shows it. */
export function vaultRequestOf(row: LogRow): z.input<typeof vaultRequest> {
  const { answer, reservation } = row;
  return {
    request_id: row.requestId,
    at: row.at.toISOString(),
    vault_key: row.keyId,
    idempotency_key: row.idempotencyKey,
    attempt_id: row.attemptId,
    method: row.method,
    path: row.path,
    decision: row.decision,
    amount: row.amountMinor,
    currency: row.currency,
    namespace: row.namespace,
    period: row.period,
    customer_id: row.customerId,
    answer:
      answer === null
        ? null
        : {
            at: answer.at.toISOString(),
            status: answer.status,
            error: answer.error,
            stripe_request_id: answer.stripeRequestId,
            replayed: answer.replayed,
            effect: answer.effect,
            duration_ms: answer.durationMs,
          },
    reservation:
      reservation === null
        ? null
        : {
            state: reservation.state,
            reason: reservation.reason,
            object: reservation.objectId,
          },
  };
}
