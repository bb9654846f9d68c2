import { z } from 'zod';
import { outcome } from './customers.ts';
import { time } from './common.ts';

const when = time.nullable();
const text = z.string().nullable();
const minor = z.int();

const answer = z.object({
  at: time,
  status: z.int().nullable().meta({ description: 'null: no HTTP answer came' }),
  error: text,
  stripe_request_id: text,
  replayed: z.boolean().meta({ description: "Stripe's saved reply of an earlier execution" }),
  never_reached_stripe: z.boolean().meta({ description: 'The vault refused it' }),
  duration_ms: z.int(),
});

const attempt = z.object({
  attempt_id: z.string().meta({ description: 'X-Attempt-Id of the request' }),
  activity_attempt: z.int(),
  worker: z.string(),
  sent_at: time,
  answer: answer.nullable().meta({ description: 'null: the reply was lost, or is not there yet' }),
});

const key = z.object({
  generation: z.int(),
  operation: z.enum(['create', 'confirm']),
  idempotency_key: z.string(),
  api_version: z.string(),
  outcome: text,
  reason: text,
  charge: text,
  stripe_request_id: text,
  created_at: time,
  first_sent_at: when,
  finished_at: when,
  attempts: z.array(attempt),
});

/** One request in the vault's log, with its answer and where its reservation stands. */
export const vaultRequest = z
  .object({
    request_id: z.string(),
    at: time,
    vault_key: z.string(),
    idempotency_key: text,
    attempt_id: text,
    method: z.string(),
    path: z.string(),
    decision: z.string().meta({ description: '"forward", or the code of the refusal' }),
    amount: minor.nullable(),
    currency: text,
    namespace: text,
    period: text,
    customer_id: text,
    answer: z
      .object({
        at: time,
        status: z.int().nullable(),
        error: text,
        stripe_request_id: text,
        replayed: z.boolean(),
        effect: z.string(),
        duration_ms: z.int(),
      })
      .nullable(),
    reservation: z.object({ state: z.string(), reason: z.string(), object: text }).nullable(),
  })
  .meta({ id: 'VaultRequest' });

export const story = z
  .object({
    namespace: z.string(),
    period: z.string(),
    customer_id: z.string(),
    stripe_customer: z.string(),
    payment_method: text,
    description: text,
    amount: minor.meta({ description: 'In minor units of the currency' }),
    currency: z.string(),
    outcome,
    reason: text,
    advice: text,
    generation: z.int().nullable(),
    idempotency_key: text,
    payment_intent: text,
    charge: text,
    claimed_at: when,
    sent_at: when,
    settled_at: when,
    updated_at: when,
    keys: z.array(key).meta({ description: 'Every idempotency key, with every time it was sent' }),
    vault: z.object({
      answer: z.string().meta({ description: 'Did it go out twice? In one sentence' }),
      requests: z.array(vaultRequest),
    }),
    looks: z
      .array(
        z.object({
          at: time,
          generation: z.int(),
          idempotency_key: z.string(),
          sees: z.string(),
        }),
      )
      .meta({ description: 'Looks at Stripe that showed no effect of a key' }),
    events: z
      .array(
        z.object({
          at: time.meta({ description: 'When it arrived' }),
          event_id: z.string(),
          type: z.string(),
          payment_intent: text,
          charge: text,
          state: z.string(),
          result: text,
          created_at: time,
          processed_at: when,
        }),
      )
      .meta({ description: "Stripe's webhook events" }),
    resolutions: z.array(
      z.object({
        at: time,
        generation: z.int(),
        verdict: z.string(),
        charge: text,
        evidence: z.string(),
        operator: z.string(),
        decides: z.boolean().meta({ description: 'false: somebody else must say the same' }),
      }),
    ),
    refunds: z
      .array(
        z.object({
          plan_id: z.int(),
          planned_at: time,
          charge: z.string(),
          kept_charge: z.string(),
          amount: minor,
          currency: z.string(),
          state: z.string(),
          refund: text,
          reason: text,
          first_sent_at: when,
          finished_at: when,
        }),
      )
      .meta({ description: 'Charges given back because they paid this a second time' }),
    audit: z.array(
      z.object({
        at: time,
        actor: z.string(),
        action: z.string(),
        reason: text,
        details: z.unknown(),
      }),
    ),
    timeline: z
      .array(z.object({ at: time, kind: z.string(), text: z.string(), ref: text }))
      .meta({ description: 'All of it in one line each, in the order in which it happened' }),
    workflows: z.array(z.object({ id: z.string(), what: z.string(), url: text })),
    links: z.object({ stripe_payment: text, stripe_customer: z.string() }),
  })
  .meta({ id: 'Story' });
