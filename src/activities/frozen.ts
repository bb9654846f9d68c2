import { idempotencyKey, type ChargeOperation } from '../domain/idempotency-key.ts';
import type { SlotRef } from '../domain/ids.ts';
import type { NextGeneration } from '../db/generations.ts';
import { confirmRequestBody, createRequestBody } from '../payments/frozen-request.ts';
import type { ActivityDeps } from './deps.ts';

/** Keys and bytes of one generation's create and confirm, ready to be stored. */
export function freezeGeneration(
  deps: ActivityDeps,
  slot: SlotRef,
  item: {
    readonly generation: number;
    readonly stripeCustomerId: string;
    readonly paymentMethodId: string;
    readonly amountMinor: number;
    readonly currency: string;
    readonly description: string | null;
  },
): NextGeneration {
  const keyOf = (operation: ChargeOperation) =>
    idempotencyKey({
      account: deps.account,
      mode: deps.mode,
      namespace: slot.namespace,
      customerId: slot.customerId,
      period: slot.period,
      operation,
      generation: item.generation,
    });
  const createKey = keyOf('create');
  return {
    create: { key: createKey, body: createRequestBody({ ...slot, ...item }, createKey) },
    confirm: { key: keyOf('confirm'), body: confirmRequestBody(item.paymentMethodId) },
    apiVersion: deps.gateway.apiVersion,
  };
}
