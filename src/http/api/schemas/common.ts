import { z } from 'zod';
import { parseBillingPeriod } from '../../../domain/billing-period.ts';
import { parseCustomerId } from '../../../domain/customer-id.ts';
import { DEFAULT_NAMESPACE, parseBillingNamespace } from '../../../domain/namespace.ts';

/** Longest reason; it travels in messages to a run, which take no more. */
const MAX_REASON = 500;
const MAX_PAGE = 200;
const DEFAULT_PAGE = 50;
/**
 * What may stand in a log, and reaches Temporal: half a surrogate pair is no UTF-8. Spelled out, so that the OpenAPI
 * document can say it to every kind of client.
 */
// oxlint-disable-next-line no-control-regex -- they are what is refused
export const NO_CONTROLS = /^[^\u0000-\u001f\u007f-\u009f\ud800-\udfff]*$/u;
export const NO_CONTROLS_TEXT = 'must not contain control characters or half a surrogate pair';
/** A cursor names one row; a longer one is none of ours. */
const MAX_CURSOR = 512;

/** A billing period, parsed. */
export const period = z
  .string()
  .max(40)
  .transform((text, context) => {
    const parsed = parseBillingPeriod(text);
    if (parsed.ok) return parsed.period;
    context.addIssue({ code: 'custom', message: parsed.problem });
    return z.NEVER;
  })
  .meta({
    description: 'Billing period: 2026-11, 2026-W48, 2026-11-29 or 2026',
    examples: ['2026-11'],
  });

const namespaceText = z
  .string()
  .max(40)
  .transform((text, context) => {
    const parsed = parseBillingNamespace(text);
    if (parsed.ok) return parsed.namespace;
    context.addIssue({ code: 'custom', message: parsed.problem });
    return z.NEVER;
  });

/** What is billed; `base` when it is left out. */
export const namespace = namespaceText.default(DEFAULT_NAMESPACE).meta({
  description: 'What is billed; another namespace is another run of the same period',
  examples: ['base'],
});

/** A namespace to filter by: left out means all. */
export const anyNamespace = namespaceText
  .optional()
  .meta({ description: 'Only this namespace; all when it is left out' });

/** Our own id of a customer, parsed. */
export const customerId = z
  .string()
  .max(100)
  .transform((text, context) => {
    const parsed = parseCustomerId(text);
    if (parsed.ok) return parsed.customerId;
    context.addIssue({ code: 'custom', message: parsed.problem });
    return z.NEVER;
  })
  .meta({ description: 'Our own id of a customer, opaque ASCII', examples: ['cus_123'] });

/** Why: required on whatever moves money or stops it. One line, as it goes into logs. */
export const reason = z
  .string()
  .trim()
  .min(1, 'must say why')
  .max(MAX_REASON)
  .regex(NO_CONTROLS, NO_CONTROLS_TEXT)
  .meta({ description: 'Why, for the audit log; one line', examples: ['new price list is in'] });

/** `{period}` of the path. */
export const runParams = z.strictObject({ period });

/** `{period}` and `{customer}` of the path. */
export const slotParams = z.strictObject({ period, customer: customerId });

/** `?namespace=`. */
export const namespaceQuery = z.strictObject({ namespace });

/** The body of an order to a run. */
export const orderBody = z.strictObject({ reason });

/**
 * `?limit=&after=` of a list; `after` is parsed into the key of the last row that was seen. Spread its shape into the
 * route's own query: `z.strictObject({ ...pageShape(z.tuple([z.string()])), namespace })`.
 */
export function pageShape<Key extends z.ZodType>(key: Key) {
  return {
    limit: z.coerce
      .number()
      .int()
      .min(1)
      .max(MAX_PAGE)
      .default(DEFAULT_PAGE)
      .meta({ description: 'Rows of one page' }),
    after: z
      .string()
      .max(MAX_CURSOR)
      .transform((text, context): z.output<Key> => {
        const parsed = key.safeParse(readCursor(text));
        if (parsed.success) return parsed.data;
        context.addIssue({ code: 'custom', message: 'is no cursor of this list' });
        return z.NEVER;
      })
      .optional()
      .meta({ description: '"next" of the page before; opaque' }),
  };
}

function readCursor(text: string): unknown {
  try {
    return JSON.parse(Buffer.from(text, 'base64url').toString('utf8'));
  } catch {
    return undefined;
  }
}

/** What a list answers. */
export function pageOf<Row extends z.ZodType>(row: Row) {
  return z.object({
    data: z.array(row),
    next: z.string().nullable().meta({ description: 'Cursor of the next page; null at the end' }),
  });
}

/** A time as it stands in answers: ISO 8601 in UTC. */
export const time = z.iso.datetime().meta({ examples: ['2026-11-01T00:00:00.000Z'] });

/** Minor units per currency, such as `{"usd": 129900}`. */
export const amounts = z
  .record(z.string(), z.int())
  .meta({ description: 'Minor units per currency', examples: [{ usd: 129_900 }] });
