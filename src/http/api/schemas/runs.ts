import { z } from 'zod';
import {
  amounts,
  anyNamespace,
  namespace,
  NO_CONTROLS,
  NO_CONTROLS_TEXT,
  pageOf,
  pageShape,
  period,
  reason,
  time,
} from './common.ts';

/** The body of `POST /v1/runs`. */
export const startBody = z
  .strictObject({
    period,
    namespace,
    reason: reason.optional(),
    go_on_after_stop: z.boolean().default(false).meta({
      description:
        'A run that was stopped goes on with the customers that are left; needs a reason',
    }),
  })
  .refine((body) => !body.go_on_after_stop || body.reason !== undefined, {
    path: ['reason'],
    message: 'must say why, since the run was stopped by somebody',
  });

export const startAnswer = z.object({
  period: z.string(),
  namespace: z.string(),
  workflow_id: z.string(),
  result: z.enum(['started', 'already_running', 'completed_before']).meta({
    description: 'completed_before: it is over, and nobody is charged again',
  }),
  workflow_url: z.string().nullable(),
});

const control = z.enum(['running', 'paused', 'stopped']);
const plannedState = z.enum(['planned', 'charging', 'settling', 'completed', 'stopped']);

const listedRun = z.object({
  period: z.string(),
  namespace: z.string(),
  state: plannedState,
  control: control.meta({ description: 'What was last ordered' }),
  note: z.string().nullable().meta({ description: 'By whom it is held, and why' }),
  customers: z.int(),
  expected: amounts,
  planned_by: z.string(),
  planned_at: time,
  completed_at: time.nullable(),
});

export type ListedRunAnswer = z.infer<typeof listedRun>;
export const runList = pageOf(listedRun);
/** The database takes no NUL, wherever it comes from. */
const cursorText = z.string().max(40).regex(NO_CONTROLS, NO_CONTROLS_TEXT);
/** Microseconds of the plan, namespace, period. */
export const runListQuery = z.strictObject({
  namespace: anyNamespace,
  ...pageShape(z.tuple([z.int(), cursorText, cursorText])),
});

/** How a run stands; the same object in `GET /v1/runs/{period}` and in every event of its stream. */
const runProgress = z.object({
  period: z.string(),
  namespace: z.string(),
  workflow_id: z.string(),
  state: z.enum(['planning', 'failed', ...plannedState.options]).meta({
    description:
      'planning: started, and what is due is not frozen yet. failed: it ended before it had a plan; "note" says why',
  }),
  control,
  note: z.string().nullable().meta({ description: 'By whom it is held and why, or why it failed' }),
  customers: z.int(),
  counts: z.object({
    charged: z.int(),
    declined: z.int(),
    indeterminate: z.int().meta({ description: 'Not known yet; never the same as failed' }),
    blocked: z.int(),
    skipped: z.int(),
    misconfigured: z.int(),
  }),
  in_progress: z.int(),
  in_review: z.int().meta({ description: 'Wait for a person' }),
  processing: z.int().meta({ description: 'Of the indeterminate: the bank is at work on them' }),
  unclaimed: z.int(),
  charged: amounts,
  expected: amounts,
  planned_at: time.nullable(),
  completed_at: time.nullable(),
});

export type RunProgressAnswer = z.infer<typeof runProgress>;

/** The stream of a run: text of events, not JSON. */
export const progressEvents = {
  description: 'A stream of events',
  content: { 'text/event-stream': { schema: z.any() } },
};

export const runAnswer = runProgress.extend({
  reasons: z
    .array(
      z.object({
        state: z.string(),
        reason: z.string(),
        advice: z.string().nullable(),
        customers: z.int(),
      }),
    )
    .meta({ description: 'Why customers were not charged, most frequent first' }),
  workflow_url: z.string().nullable().meta({ description: "The run in Temporal's UI" }),
  pollers: z.boolean().nullable().meta({
    description:
      'false: no worker polls, so the run does not go on. null: Temporal could not be asked',
  }),
});

export const orderAnswer = z.object({
  period: z.string(),
  namespace: z.string(),
  order: z.enum(['pause', 'resume', 'stop']),
  charges_to_fire: z
    .int()
    .nullable()
    .meta({ description: 'Of a resume: at most this many charges follow' }),
});
