import type { FastifyReply, FastifyRequest } from 'fastify';
import type { z } from 'zod';
import { readDossier, type Dossier } from '../../../db/dossier.ts';
import {
  readDecision,
  resolveSlot,
  type ResolutionAnswer,
  type Verdict,
} from '../../../db/resolutions.ts';
import { readRun } from '../../../db/runs.ts';
import { readItemAndSlot } from '../../../db/slots.ts';
import { constraintOf } from '../../../db/sqlstate.ts';
import { orderFailureOf } from '../../../client/order-failure.ts';
import type { SlotRef } from '../../../domain/ids.ts';
import { checkAbsent, checkCharge } from '../../../payments/check-resolution.ts';
import { LookupFailed } from '../../../payments/gateway.ts';
import { callerOf } from '../auth.ts';
import { readyForOrders } from '../before-orders.ts';
import type { ApiApp, ApiDeps } from '../deps.ts';
import { KEYED } from '../keyed.ts';
import { ApiProblem } from '../problems.ts';
import { giveRerun, RERUN_ANSWER, rerunOrderOf } from '../rerun-order.ts';
import { namespaceQuery, slotParams } from '../schemas/common.ts';
import { decided, proposed, resolutionBody } from '../schemas/resolutions.ts';
import { unknownText } from './runs.ts';

type Said = z.output<typeof resolutionBody>;

/**
 * `POST …/customers/{customer}/resolution`: a person decides about a charge that Stripe cannot answer for. A slot is
 * decided once; with RESOLVE_APPROVERS=2 by two people of different names who say the same.
 */
export function registerResolutions(app: ApiApp, deps: ApiDeps): void {
  const ready = readyForOrders(deps);
  app.post(
    '/runs/:period/customers/:customer/resolution',
    {
      config: {
        access: 'approver',
        // A decision that was made is found again, and the rerun behind it has the id of the key.
        idempotency: KEYED,
        problems: [
          'run-unknown',
          'customer-unknown',
          'resolution-not-open',
          'resolution-too-early',
          'stripe-disagrees',
          'charge-taken',
          'stripe-unavailable',
          'environment-mismatch',
          'temporal-unavailable',
        ],
      },
      schema: {
        tags: ['customers'],
        summary: 'Decide about a charge that Stripe cannot answer for',
        description:
          'Only a customer in review, or one whose keys are too old to be sent again. Stripe is asked whether it contradicts. 202: noted, and somebody else must say the same.',
        params: slotParams,
        querystring: namespaceQuery,
        body: resolutionBody,
        response: { 200: decided, 202: proposed },
      },
      // Only a rerun needs Temporal.
      preHandler: async (request: FastifyRequest<{ Body: Said }>, reply: FastifyReply) =>
        request.body.as === 'absent' && request.body.rerun ? ready(request, reply) : undefined,
    },
    async (request, reply) => {
      const { period, customer: customerId } = request.params;
      const slot = { period, namespace: request.query.namespace, customerId };
      const answer = await decide(deps, { slot, said: request.body, request });
      switch (answer.kind) {
        case 'decided': {
          const { generation } = answer;
          const rerun = await billAgain(deps, { slot, said: request.body, request });
          return reply.code(200).send({ answer: 'decided', generation, rerun });
        }
        case 'proposed':
          return reply.code(202).send({ answer: 'proposed', by: answer.by });
        case 'tooEarly':
          throw new ApiProblem(
            'resolution-too-early',
            `the key of ${customerId} is younger than 23 h, so Stripe is still asked by itself; nothing was changed`,
          );
        case 'notOpen':
          throw notOpen(customerId, answer.state);
      }
    },
  );
}

interface Order {
  readonly slot: SlotRef;
  readonly said: Said;
  readonly request: FastifyRequest;
}

async function decide(deps: ApiDeps, order: Order): Promise<ResolutionAnswer> {
  const { slot, said, request } = order;
  const { evidence } = said;
  const operator = callerOf(request).name;
  if (request.idempotency?.takenOver === true) {
    const before = await readDecision(deps.db, slot, { verdict: said.as, evidence, operator });
    if (before !== null) return { kind: 'decided', generation: before.generation };
  }
  const dossier = await dossierOf(deps, slot);
  const { state } = dossier;
  if (state !== 'indeterminate' && state !== 'in_review') return { kind: 'notOpen', state };
  const verdict = await checkedVerdict(deps, { slot, said, dossier });
  try {
    const approvers = deps.resolveApprovers;
    return await resolveSlot(deps.db, slot, { verdict, evidence, operator, approvers });
  } catch (error) {
    const constraint = constraintOf(error);
    const taken =
      constraint === 'charge_pays_one_slot' || constraint === 'payment_intent_serves_one_slot';
    if (!taken || verdict.as !== 'charged') throw error;
    throw new ApiProblem(
      'charge-taken',
      `${verdict.chargeId} pays another customer or period already: nothing was changed`,
    );
  }
}

/** Throws the 404 or 409 of a customer without a slot. */
async function dossierOf({ db }: ApiDeps, slot: SlotRef): Promise<Dossier> {
  const dossier = await readDossier(db, slot);
  if (dossier !== null) return dossier;
  if ((await readRun(db, slot)) === null) throw new ApiProblem('run-unknown', unknownText(slot));
  const { customerId, period, namespace } = slot;
  if ((await readItemAndSlot(db, slot)) === null)
    throw new ApiProblem(
      'customer-unknown',
      `${customerId} is not in the plan of ${period} (${namespace})`,
    );
  throw notOpen(customerId, 'unclaimed');
}

function notOpen(customerId: string, state: string | null): ApiProblem {
  const stands = state ?? 'unclaimed';
  return new ApiProblem('resolution-not-open', {
    detail: `${customerId} is ${stands}: there is nothing to resolve`,
    state: stands,
  });
}

/** The verdict, once Stripe has not contradicted it. */
async function checkedVerdict(
  deps: ApiDeps,
  { slot, said, dossier }: Pick<Order, 'slot' | 'said'> & { readonly dossier: Dossier },
): Promise<Verdict> {
  const gateway = deps.gatewayOf(slot);
  try {
    if (said.as === 'absent') {
      const contradiction = await checkAbsent(gateway, dossier);
      if (contradiction !== null) throw new ApiProblem('stripe-disagrees', contradiction);
      return { as: 'absent' };
    }
    const { charge: chargeId } = said;
    const checked = await checkCharge(gateway, { ...dossier, ...slot }, chargeId);
    if (!checked.ok) throw new ApiProblem('stripe-disagrees', checked.problem);
    return { as: 'charged', chargeId, paymentIntentId: checked.paymentIntentId };
  } catch (error) {
    if (!(error instanceof LookupFailed)) throw error;
    deps.log.warn({ err: error, customer: slot.customerId }, 'Stripe did not confirm a resolution');
    throw error.status === 404
      ? new ApiProblem(
          'stripe-disagrees',
          'Stripe does not know what is named: nothing was changed',
        )
      : new ApiProblem('stripe-unavailable', 'Stripe gave no answer, so nothing was changed');
  }
}

/** The order behind an absence; null where none is wanted. What is decided stays, whatever becomes of the order. */
async function billAgain(
  deps: ApiDeps,
  { slot, said, request }: Order,
): Promise<z.output<typeof decided>['rerun']> {
  if (said.as !== 'absent' || !said.rerun) return null;
  const reason = `resolved as absent: ${said.evidence}`;
  try {
    const client = await deps.temporal();
    return RERUN_ANSWER[await giveRerun(client, rerunOrderOf(request, slot, reason))];
  } catch (error) {
    const failure = orderFailureOf(error);
    const context = { err: error, customer: slot.customerId, failure: failure?.kind };
    deps.log.warn(context, 'the rerun behind a resolution got no answer');
    return 'not_known';
  }
}
