import { z } from 'zod';
import { CUSTOMER_OUTCOMES } from '../../../db/run-customers.ts';
import {
  NO_CONTROLS,
  NO_CONTROLS_TEXT,
  namespace,
  pageOf,
  pageShape,
  reason,
  time,
} from './common.ts';

const minor = z.int().meta({ description: 'In minor units of the currency', examples: [129_900] });
const when = time.nullable();

export const outcome = z.enum(CUSTOMER_OUTCOMES).meta({
  description:
    'How the customer stands in this run. unclaimed: it is in the plan, and nobody has begun with it. indeterminate: it is not known yet whether money moved',
});

/** A decline code, a skip reason or an error type; who is charged has none. */
export const outcomeReason = z
  .string()
  .min(1)
  .max(200)
  .regex(NO_CONTROLS, NO_CONTROLS_TEXT)
  .meta({
    description: 'Why somebody is not charged: a decline code, a skip reason, an error type',
    examples: ['insufficient_funds'],
  });

/** The mark keeps a cursor of another list from being taken for one of this. */
const cursorId = z.string().regex(/^[A-Za-z0-9_.-]{0,64}$/);
export const runCursor = z.tuple([z.literal('run'), cursorId]);
const importedCursor = z.tuple([z.literal('imported'), cursorId]);

/** `?namespace=&outcome=&reason=&limit=&after=`. */
export const runCustomersQuery = z.strictObject({
  namespace,
  outcome: outcome.optional(),
  reason: outcomeReason.optional(),
  ...pageShape(runCursor),
});

/** `?limit=&after=`. */
export const importedQuery = z.strictObject(pageShape(importedCursor));

/** The key of a cursor in the list of a run's customers, and in the list of imported ones. */
export const runCursorKey = (id: string): [string, string] => ['run', id];
export const importedCursorKey = (id: string): [string, string] => ['imported', id];

const runCustomer = z
  .object({
    customer_id: z.string(),
    stripe_customer: z.string(),
    amount: minor,
    currency: z.string(),
    outcome,
    reason: z.string().nullable(),
    advice: z.string().nullable().meta({ description: 'What may be done about it' }),
    generation: z.int().nullable().meta({ description: 'Rises with each rerun; null: unclaimed' }),
    payment_intent: z.string().nullable(),
    charge: z.string().nullable(),
    claimed_at: when,
    sent_at: when.meta({ description: 'When its first request was sent' }),
    settled_at: when,
    updated_at: when,
  })
  .meta({ id: 'RunCustomer' });

export const runCustomers = pageOf(runCustomer);

const importedCustomer = z
  .object({
    customer_id: z.string(),
    stripe_customer: z.string(),
    payment_method: z.string().nullable().meta({ description: 'null: skipped by a run' }),
    amount: minor,
    currency: z.string(),
    description: z.string().nullable(),
    active: z.boolean().meta({ description: 'false: not in the plans of runs that start now' }),
    created_at: time,
    updated_at: time,
  })
  .meta({ id: 'ImportedCustomer' });

export const importedCustomers = pageOf(importedCustomer);

export const importQuery = z.strictObject({
  dry_run: z.stringbool().default(false).meta({
    description: 'true: everything is checked and counted, and nothing is kept',
  }),
  reason: reason.optional(),
});

export const importAnswer = z
  .object({
    dry_run: z.boolean(),
    rows: z.int(),
    inserted: z.int(),
    updated: z.int(),
    unchanged: z.int(),
    warnings: z.array(z.string()),
    sha256: z.string().meta({ description: 'Of the body; the audit log has it too' }),
  })
  .meta({ id: 'Import' });
