import { readRun } from '../../../db/runs.ts';
import { readStory, type Story, type StoryKey } from '../../../db/story.ts';
import { customerWorkflowId, runWorkflowId, type SlotRef } from '../../../domain/ids.ts';
import { answerLog } from '../../../vault-log-answer.ts';
import type { ApiApp, ApiDeps } from '../deps.ts';
import { problem } from '../problems.ts';
import { workflowUrlOf } from '../run-view.ts';
import { namespaceQuery, slotParams } from '../schemas/common.ts';
import { story } from '../schemas/story.ts';
import { timelineOf } from '../story-timeline.ts';
import { vaultRequestOf } from '../vault-view.ts';

/**
 * `GET /v1/runs/{period}/customers/{customer}`: everything that is known of one customer in one run, in the order in
 * which it happened. Changes nothing.
 */
export function registerStory(app: ApiApp, deps: ApiDeps): void {
  const { db } = deps;
  app.get(
    '/runs/:period/customers/:customer',
    {
      config: { access: 'viewer', problems: ['run-unknown', 'customer-unknown'] },
      schema: {
        tags: ['customers'],
        summary: 'The whole story of one customer in a run',
        params: slotParams,
        querystring: namespaceQuery,
        response: { 200: story },
      },
    },
    async (request, reply) => {
      const { period, customer: customerId } = request.params;
      const slot: SlotRef = { period, namespace: request.query.namespace, customerId };
      const found = await readStory(db, slot);
      if (found !== null) return shown(deps, slot, found);
      return (await readRun(db, slot)) === null
        ? problem(reply, 'run-unknown', `${period} (${slot.namespace}) was never planned here`)
        : problem(
            reply,
            'customer-unknown',
            `${period} (${slot.namespace}) is planned here, and ${customerId} is not in its plan`,
          );
    },
  );
}

function shown(deps: ApiDeps, slot: SlotRef, found: Story) {
  const { customer, looks, events, resolutions, refunds, audit } = found;
  return {
    ...headOf(slot, customer),
    keys: found.keys.map((key) => keyOf(key)),
    vault: {
      answer: answerLog(found.vault, slot),
      requests: found.vault.map((row) => vaultRequestOf(row)),
    },
    looks: looks.map(({ at, generation, idempotencyKey, sees }) => ({
      at: at.toISOString(),
      generation,
      idempotency_key: idempotencyKey,
      sees,
    })),
    events: events.map((event) => ({
      at: event.at.toISOString(),
      event_id: event.eventId,
      type: event.type,
      payment_intent: event.paymentIntentId,
      charge: event.chargeId,
      state: event.state,
      result: event.result,
      created_at: event.createdAt.toISOString(),
      processed_at: iso(event.processedAt),
    })),
    resolutions: resolutions.map(({ at, chargeId, ...rest }) => ({
      ...rest,
      at: at.toISOString(),
      charge: chargeId,
    })),
    refunds: refunds.map((refund) => ({
      plan_id: refund.planId,
      planned_at: refund.plannedAt.toISOString(),
      charge: refund.chargeId,
      kept_charge: refund.keptChargeId,
      amount: refund.amountMinor,
      currency: refund.currency,
      state: refund.state,
      refund: refund.refundId,
      reason: refund.reason,
      first_sent_at: iso(refund.firstSentAt),
      finished_at: iso(refund.finishedAt),
    })),
    audit: audit.map(({ at, ...rest }) => ({ ...rest, at: at.toISOString() })),
    timeline: timelineOf(found).map(({ at, ...rest }) => ({ ...rest, at: at.toISOString() })),
    ...linksOf(deps, slot, customer),
  };
}

function headOf(slot: SlotRef, customer: Story['customer']) {
  return {
    namespace: slot.namespace,
    period: slot.period,
    customer_id: customer.customerId,
    stripe_customer: customer.stripeCustomerId,
    payment_method: customer.paymentMethodId,
    description: customer.description,
    amount: customer.amountMinor,
    currency: customer.currency,
    outcome: customer.outcome,
    reason: customer.reason,
    advice: customer.advice,
    generation: customer.generation,
    idempotency_key: customer.idempotencyKey,
    payment_intent: customer.paymentIntentId,
    charge: customer.chargeId,
    claimed_at: iso(customer.claimedAt),
    sent_at: iso(customer.sentAt),
    settled_at: iso(customer.settledAt),
    updated_at: iso(customer.updatedAt),
  };
}

function keyOf({ attempts, ...key }: StoryKey) {
  return {
    generation: key.generation,
    operation: key.operation,
    idempotency_key: key.idempotencyKey,
    api_version: key.apiVersion,
    outcome: key.outcome,
    reason: key.reason,
    charge: key.chargeId,
    stripe_request_id: key.stripeRequestId,
    created_at: key.createdAt.toISOString(),
    first_sent_at: iso(key.firstSentAt),
    finished_at: iso(key.finishedAt),
    attempts: attempts.map(({ attemptId, activityAttempt, worker, sentAt, answer }) => ({
      attempt_id: attemptId,
      activity_attempt: activityAttempt,
      worker,
      sent_at: sentAt.toISOString(),
      answer:
        answer === null
          ? null
          : {
              at: answer.at.toISOString(),
              status: answer.status,
              error: answer.error,
              stripe_request_id: answer.stripeRequestId,
              replayed: answer.replayed,
              never_reached_stripe: answer.neverReachedStripe,
              duration_ms: answer.durationMs,
            },
    })),
  };
}

/** Where a person looks further: the workflows in Temporal's UI, the payment in Stripe's dashboard. */
function linksOf(deps: ApiDeps, slot: SlotRef, customer: Story['customer']) {
  const dashboard = `https://dashboard.stripe.com/${deps.account}/${deps.mode === 'live' ? '' : 'test/'}`;
  const { paymentIntentId, stripeCustomerId } = customer;
  return {
    workflows: [
      { id: runWorkflowId(slot), what: 'run' },
      { id: customerWorkflowId(slot), what: 'customer' },
    ].map((workflow) => ({ ...workflow, url: workflowUrlOf(deps, workflow.id) })),
    links: {
      stripe_payment: paymentIntentId === null ? null : `${dashboard}payments/${paymentIntentId}`,
      stripe_customer: `${dashboard}customers/${stripeCustomerId}`,
    },
  };
}

function iso(at: Date | null): string | null {
  return at?.toISOString() ?? null;
}
