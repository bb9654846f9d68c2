import { z } from 'zod';
import type { AttemptAnswer } from '../domain/charge.ts';
import type { IdempotencyKey } from '../domain/idempotency-key.ts';
import type { FrozenSend, Refusal } from './gateway.ts';
import { listAll, pagesOf } from './stripe-lists.ts';
import { expandable, idOf, parseReply } from './stripe-replies.ts';

/** A charge with what decides whether it is an extra one, and how much of it is left to give back. */
export interface ListedCharge {
  readonly id: string;
  /** seconds since the epoch, by Stripe's clock */
  readonly created: number;
  readonly status: string;
  readonly amountMinor: number;
  readonly capturedMinor: number;
  readonly refundedMinor: number;
  /** the bank has taken the money back, or is about to decide */
  readonly disputed: boolean;
  readonly currency: string;
  readonly customer: string | null;
  readonly paymentIntentId: string | null;
  readonly metadata: Readonly<Record<string, string>>;
}

export interface RefundSeen {
  readonly id: string;
  readonly status: string;
  readonly amountMinor: number;
  readonly currency: string;
  readonly chargeId: string | null;
  readonly metadata: Readonly<Record<string, string>>;
}

/** The answer to one POST /v1/refunds. `lost`: no usable answer, it may have taken effect. */
export type RefundReply =
  | { readonly kind: 'refund'; readonly refund: RefundSeen; readonly answer: AttemptAnswer }
  | { readonly kind: 'refused'; readonly refusal: Refusal; readonly answer: AttemptAnswer }
  | { readonly kind: 'lost'; readonly reason: string; readonly answer: AttemptAnswer };

/** What finding duplicates and giving them back needs of a provider. Look-ups throw {@link LookupFailed}. */
export interface RefundGateway {
  /** what new refunds are frozen with */
  readonly apiVersion: string;
  /** All charges of a time, newest first, page by page: a year of them does not fit one answer. */
  listCharges(range: {
    readonly createdGte: number;
    readonly createdLt: number;
  }): AsyncIterable<readonly ListedCharge[]>;
  readCharge(chargeId: string): Promise<ListedCharge>;
  createRefund(send: FrozenSend): Promise<RefundReply>;
  /** Every refund of a charge, all pages. */
  listRefunds(chargeId: string): Promise<readonly RefundSeen[]>;
}

/** The metadata name by which a lost refund is found again. */
export const REFUND_KEY_METADATA = 'chargeonce_refund_key';

/** The bytes of a refund, decided once and stored before the first send. */
export function refundRequestBody(line: {
  readonly chargeId: string;
  readonly amountMinor: number;
  readonly key: IdempotencyKey;
  readonly planId: number;
}): string {
  return new URLSearchParams({
    charge: line.chargeId,
    amount: String(line.amountMinor),
    reason: 'duplicate',
    [`metadata[${REFUND_KEY_METADATA}]`]: line.key,
    'metadata[chargeonce_refund_plan]': String(line.planId),
  }).toString();
}

/** A million charges: more in one range is to be looked at in parts. */
const MAX_CHARGE_PAGES = 10_000;
/** Stripe allows many partial refunds; a charge with thousands of them is not one of ours. */
const MAX_REFUND_PAGES = 20;

/** How the gateway's client reads and writes; the key guard and the frozen bytes are below this. */
export interface RefundCalls {
  readonly apiVersion: string;
  readonly get: (path: string) => Promise<unknown>;
  readonly post: (
    path: string,
    send: FrozenSend,
  ) => Promise<
    | { readonly kind: 'body'; readonly body: unknown; readonly answer: AttemptAnswer }
    | Exclude<RefundReply, { kind: 'refund' }>
  >;
}

/** Charges and refunds over an existing client. */
export function createRefundGateway({ apiVersion, get, post }: RefundCalls): RefundGateway {
  return {
    apiVersion,
    async *listCharges({ createdGte, createdLt }) {
      const params = { 'created[gte]': String(createdGte), 'created[lt]': String(createdLt) };
      const query = { path: '/v1/charges', params, item: chargeSchema, maxPages: MAX_CHARGE_PAGES };
      for await (const page of pagesOf(get, query)) yield page.map(toListedCharge);
    },
    async readCharge(id) {
      return toListedCharge(
        parseReply(chargeSchema, await get(`/v1/charges/${encodeURIComponent(id)}`)),
      );
    },
    async createRefund(send) {
      const reply = await post('/v1/refunds', send);
      if (reply.kind !== 'body') return reply;
      const parsed = refundSchema.safeParse(reply.body);
      // A 2xx that is no refund cannot be trusted in either direction.
      if (!parsed.success)
        return { kind: 'lost', reason: 'unreadable_reply', answer: reply.answer };
      return { kind: 'refund', refund: toRefund(parsed.data), answer: reply.answer };
    },
    async listRefunds(chargeId) {
      const params = { charge: chargeId };
      const query = { path: '/v1/refunds', params, item: refundSchema, maxPages: MAX_REFUND_PAGES };
      return (await listAll(get, query)).map(toRefund);
    },
  };
}

const metadata = z.record(z.string(), z.string()).nullish();

const chargeSchema = z.object({
  object: z.literal('charge'),
  id: z.string().min(1),
  created: z.int(),
  status: z.string(),
  amount: z.int(),
  amount_captured: z.int(),
  amount_refunded: z.int(),
  disputed: z.boolean(),
  currency: z.string(),
  customer: expandable,
  payment_intent: expandable,
  metadata,
});

const refundSchema = z.object({
  object: z.literal('refund'),
  id: z.string().min(1),
  status: z.string().nullable(),
  amount: z.int(),
  currency: z.string(),
  charge: expandable,
  metadata,
});

function toListedCharge(charge: z.infer<typeof chargeSchema>): ListedCharge {
  return {
    id: charge.id,
    created: charge.created,
    status: charge.status,
    amountMinor: charge.amount,
    capturedMinor: charge.amount_captured,
    refundedMinor: charge.amount_refunded,
    disputed: charge.disputed,
    currency: charge.currency,
    customer: idOf(charge.customer),
    paymentIntentId: idOf(charge.payment_intent),
    metadata: charge.metadata ?? {},
  };
}

function toRefund(refund: z.infer<typeof refundSchema>): RefundSeen {
  return {
    id: refund.id,
    status: refund.status ?? 'unknown',
    amountMinor: refund.amount,
    currency: refund.currency,
    chargeId: idOf(refund.charge),
    metadata: refund.metadata ?? {},
  };
}
