import { z } from 'zod';
import { customerId, orderBody, pageShape, reason } from './common.ts';
import { outcomeReason, runCursor } from './customers.ts';

/** Customers of one order; more would fill the history of the run. */
const MAX_CUSTOMERS = 1_000;

/** Outcomes that a rerun can change; of the others it is answered that there is nothing to do. */
const RERUNNABLE = [
  'declined',
  'misconfigured',
  'blocked',
  'skipped',
  'indeterminate',
  'in_review',
] as const;

/** What a rerun is answered; `not_ordered` and `not_known` come with many only. */
export const RERUN_ANSWERS = [
  'accepted',
  'in_doubt',
  'already_charged',
  'nothing_due',
  'unknown_customer',
] as const;

const requestId = z.string().meta({
  description: 'The id of the order in the audit log: one Idempotency-Key is one order',
});

export const rerunBody = orderBody;

export const rerunAnswer = z
  .object({
    answer: z.enum(['accepted', 'in_doubt']).meta({
      description:
        'accepted: the customer is billed again. in_doubt: an earlier charge is not known yet, so Stripe is asked first and nothing new is sent',
    }),
    request_id: requestId,
  })
  .meta({ id: 'Rerun' });

const pages = pageShape(runCursor);

export const rerunsBody = z
  .strictObject({
    reason,
    customers: z
      .array(customerId)
      .min(1, 'must name somebody')
      .max(MAX_CUSTOMERS, `at most ${MAX_CUSTOMERS} customers in one order; send the rest after it`)
      .optional(),
    filter: z
      .strictObject({ outcome: z.enum(RERUNNABLE), reason: outcomeReason.optional() })
      .optional()
      .meta({ description: 'Instead of customers: everybody of this outcome, in pages' }),
    limit: z
      .int()
      .min(1)
      .max(MAX_CUSTOMERS)
      .default(200)
      .meta({ description: 'With filter: customers of this order' }),
    after: pages.after.meta({ description: 'With filter: "next" of the order before; opaque' }),
  })
  .refine(({ customers, filter }) => (customers === undefined) !== (filter === undefined), {
    message: 'name customers or a filter, one of them',
    path: ['customers'],
  });

const manyAnswers = z.enum([...RERUN_ANSWERS, 'refused', 'not_known', 'not_ordered']);

export const rerunsAnswer = z
  .object({
    data: z.array(
      z.object({
        customer_id: z.string(),
        answer: manyAnswers.meta({
          description:
            'As of a single rerun; refused: the run said no, see detail. not_known: the run did not answer, and may have taken it. not_ordered: nothing was done for this customer',
        }),
        request_id: requestId,
        detail: z.string().nullable(),
      }),
    ),
    counts: z.partialRecord(manyAnswers, z.int()),
    next: z.string().nullable().meta({
      description:
        'With filter: not null while there are more. Send the same order with this as "after" and a new Idempotency-Key',
    }),
  })
  .meta({ id: 'Reruns' });
