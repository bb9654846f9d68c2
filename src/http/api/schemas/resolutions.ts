import { z } from 'zod';
import { NO_CONTROLS, NO_CONTROLS_TEXT } from './common.ts';
import { RERUN_ANSWERS } from './reruns.ts';

/** It goes into the reason of the rerun as well, which takes no more. */
const evidence = z
  .string()
  .trim()
  .min(1, 'must say what you saw, and where')
  .max(400)
  .regex(NO_CONTROLS, NO_CONTROLS_TEXT)
  .meta({
    description: 'What you saw and where, for the audit log; one line',
    examples: ['nothing in the dashboard, ticket 4711'],
  });

export const resolutionBody = z.discriminatedUnion('as', [
  z.strictObject({
    as: z.literal('charged').meta({
      description: 'The named charge pays this period; Stripe is asked whether it does',
    }),
    charge: z
      .string()
      .regex(/^(ch|py)_[A-Za-z0-9_]{1,200}$/, 'must be the charge that pays this period, ch_…'),
    evidence,
  }),
  z.strictObject({
    as: z.literal('absent').meta({ description: 'Nothing was charged' }),
    evidence,
    rerun: z.boolean().default(true).meta({
      description: 'Bill the customer again now, under a new key on the same PaymentIntent',
    }),
  }),
]);

export const decided = z
  .object({
    answer: z.literal('decided'),
    generation: z.int(),
    rerun: z
      .enum([...RERUN_ANSWERS, 'not_known'])
      .nullable()
      .meta({
        description:
          'What the order to bill again was answered; not_known: the run did not answer, order it again. null: none was ordered',
      }),
  })
  .meta({ id: 'ResolutionDecided' });

export const proposed = z
  .object({
    answer: z.literal('proposed'),
    by: z.string().meta({ description: 'Somebody else must say the same' }),
  })
  .meta({ id: 'ResolutionProposed' });
