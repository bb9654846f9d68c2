import { randomUUID } from 'node:crypto';
import type { FastifyRequest } from 'fastify';
import type { RunClient } from '../../client.ts';
import type { RerunAnswer, RerunOrder } from '../../domain/charge.ts';
import type { SlotRef } from '../../domain/ids.ts';
import { callerOf } from './auth.ts';
import { orderIdOf } from './before-orders.ts';
import type { RERUN_ANSWERS } from './schemas/reruns.ts';

/** A worker has to answer for the run; without one nothing would come. */
export const ANSWER_TIMEOUT_MS = 10_000;

/** The rerun of one customer, in the name of the caller. */
export function rerunOrderOf(
  request: FastifyRequest,
  { namespace, period, customerId }: SlotRef,
  reason: string,
): RerunOrder {
  // By customer too: the key itself may be used again when its stored response is purged.
  const requestId = orderIdOf(request, [namespace, period, customerId]) ?? randomUUID();
  return { namespace, period, customerId, operator: callerOf(request).name, reason, requestId };
}

/** Orders it and gives the run's answer. Twice with one request id: one order, one answer. */
export function giveRerun(client: RunClient, order: RerunOrder): Promise<RerunAnswer> {
  const deadline = Date.now() + ANSWER_TIMEOUT_MS;
  return client.temporal.withDeadline(deadline, () => client.rerunCustomer(order));
}

/** A run's answer as the API says it. */
export const RERUN_ANSWER = {
  accepted: 'accepted',
  inDoubt: 'in_doubt',
  alreadyCharged: 'already_charged',
  nothingDue: 'nothing_due',
  unknownCustomer: 'unknown_customer',
} as const satisfies Record<RerunAnswer, (typeof RERUN_ANSWERS)[number]>;
