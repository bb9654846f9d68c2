import type { RunCustomer } from '../../../db/run-customers.ts';
import { listRunCustomers } from '../../../db/run-customers.ts';
import { readRun } from '../../../db/runs.ts';
import type { ApiApp, ApiDeps } from '../deps.ts';
import { cursorOf } from '../paging.ts';
import { problem } from '../problems.ts';
import { runParams } from '../schemas/common.ts';
import { runCursorKey, runCustomers, runCustomersQuery } from '../schemas/customers.ts';

/**
 * `GET /v1/runs/{period}/customers`: the frozen plan, each customer with where it stands. Changes nothing. A page holds
 * `limit` customers or fewer, and there is more as long as `next` is not null.
 */
export function registerCustomers(app: ApiApp, { db }: ApiDeps): void {
  app.get(
    '/runs/:period/customers',
    {
      config: { access: 'viewer', problems: ['run-unknown'] },
      schema: {
        tags: ['customers'],
        summary: 'Customers of a run, by outcome and reason',
        description:
          'Ordered by customer id. A page may hold fewer than limit customers, or none, and still have a next one. ' +
          'Whoever fits the filter all the while is in exactly one page, however others move meanwhile.',
        params: runParams,
        querystring: runCustomersQuery,
        response: { 200: runCustomers },
      },
    },
    async (request, reply) => {
      const { namespace, outcome = null, reason = null, limit, after } = request.query;
      const run = { namespace, period: request.params.period };
      if ((await readRun(db, run)) === null)
        return problem(reply, 'run-unknown', `${run.period} (${namespace}) was never planned here`);
      const page = await listRunCustomers(db, run, {
        outcome,
        reason,
        limit,
        after: after?.[1] ?? '',
      });
      return {
        data: page.customers.map((customer) => shown(customer)),
        next: page.next === null ? null : cursorOf(runCursorKey(page.next)),
      };
    },
  );
}

function shown(customer: RunCustomer) {
  return {
    customer_id: customer.customerId,
    stripe_customer: customer.stripeCustomerId,
    amount: customer.amountMinor,
    currency: customer.currency,
    outcome: customer.outcome,
    reason: customer.reason,
    advice: customer.advice,
    generation: customer.generation,
    payment_intent: customer.paymentIntentId,
    charge: customer.chargeId,
    claimed_at: customer.claimedAt?.toISOString() ?? null,
    sent_at: customer.sentAt?.toISOString() ?? null,
    settled_at: customer.settledAt?.toISOString() ?? null,
    updated_at: customer.updatedAt?.toISOString() ?? null,
  };
}
