import { z } from 'zod';
import type { AttemptAnswer } from '../domain/charge.ts';
import type { IdempotencyKey } from '../domain/idempotency-key.ts';
import { LookupFailed, type FrozenSend, type Refusal } from './gateway.ts';

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

/** Largest page of a v1 list (docs.stripe.com/api/pagination). */
const LIST_PAGE = 100;
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
      const pages = pagesOf(get, { path: '/v1/charges', params, item: chargeSchema });
      for await (const page of pages) yield page.map(toListedCharge);
    },
    async readCharge(id) {
      return toListedCharge(
        parse(chargeSchema, await get(`/v1/charges/${encodeURIComponent(id)}`)),
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
      const found: RefundSeen[] = [];
      const query = {
        path: '/v1/refunds',
        params: { charge: chargeId },
        item: refundSchema,
        maxPages: MAX_REFUND_PAGES,
      };
      for await (const page of pagesOf(get, query)) found.push(...page.map(toRefund));
      return found;
    },
  };
}

async function* pagesOf<T extends { readonly id: string }>(
  get: RefundCalls['get'],
  query: {
    path: string;
    params: Readonly<Record<string, string>>;
    item: z.ZodType<T>;
    maxPages?: number;
  },
): AsyncGenerator<readonly T[]> {
  const { maxPages = MAX_CHARGE_PAGES } = query;
  const schema = z.object({ data: z.array(query.item), has_more: z.boolean() });
  let after: string | null = null;
  for (let page = 0; page < maxPages; page += 1) {
    const params = new URLSearchParams({ ...query.params, limit: String(LIST_PAGE) });
    if (after !== null) params.set('starting_after', after);
    const list: z.infer<typeof schema> = parse(
      schema,
      await get(`${query.path}?${params.toString()}`),
    );
    yield list.data;
    after = list.data.at(-1)?.id ?? null;
    if (!list.has_more || after === null) return;
  }
  throw new LookupFailed(`${query.path} did not end after ${maxPages} pages`, {
    status: null,
    cause: undefined,
  });
}

const expandable = z.union([z.string(), z.object({ id: z.string() })]).nullish();
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

function parse<T>(schema: z.ZodType<T>, body: unknown): T {
  const parsed = schema.safeParse(body);
  if (parsed.success) return parsed.data;
  throw new LookupFailed('the answer is not what Stripe documents', {
    status: null,
    cause: parsed.error,
  });
}

function idOf(value: string | { id: string } | null | undefined): string | null {
  if (value == null) return null;
  return typeof value === 'string' ? value : value.id;
}
