import { METADATA } from '../domain/metadata.ts';
import type { MatchedEndpoint } from './endpoints.ts';
import { marksOf } from './marks.ts';

/** What a body says about money and about what it is for. */
export interface FormFacts {
  /** of a create; of a capture when it names one */
  readonly amountMinor: number | null;
  /** lower case */
  readonly currency: string | null;
  readonly stripeCustomer: string | null;
  /** SHA-256 of the metadata */
  readonly marks: Buffer;
  readonly namespace: string | null;
  readonly period: string | null;
  readonly customerId: string | null;
}

/** The call that a body belongs to. */
type FormOf = Pick<MatchedEndpoint, 'kind' | 'object' | 'objectId'>;

export type FormProblem =
  | 'unreadable_body'
  | 'amount_missing'
  | 'amount_invalid'
  | 'amount_ambiguous'
  | 'currency_invalid'
  | 'capture_not_supported';

export type Form =
  | { readonly ok: true; readonly facts: FormFacts }
  | { readonly ok: false; readonly code: FormProblem };

/** Names under which our own engine writes into an intent's metadata what it is for. */
export const OUR_METADATA = {
  namespace: METADATA.namespace,
  period: METADATA.period,
  customerId: METADATA.customer,
} as const;

/** Each decides what is spent, by whom or when: it stands once, plainly, or not at all. */
const WATCHED = new Set([
  'amount',
  'amount_to_capture',
  'amount_to_confirm',
  'capture',
  'capture_method',
  'confirm',
  'currency',
  'customer',
  'customer_account',
  'plan',
]);

/** Stripe takes at most twelve digits; a safe integer holds them. */
const AMOUNT = /^[1-9][0-9]{0,11}$/;
const CURRENCY = /^[A-Za-z]{3}$/;
/** Names on which every form parser agrees: brackets balanced and at the end, nothing in front. */
const NAME = /^([A-Za-z][A-Za-z0-9_]*)((?:\[[^[\]]*\])*)$/;
/** A page of parameters fits well; more is work without use. */
const MAX_PAIRS = 1_000;

/**
 * Reads application/x-www-form-urlencoded strictly, and only where every parser reads the same: no second separator,
 * no broken escape, no invalid UTF-8, no name that two parsers split differently. Pure, never throws.
 */
export function readForm(body: Buffer, endpoint: FormOf): Form {
  const pairs = readPairs(body);
  if (pairs === null) return refuse('unreadable_body');
  const top = new Map<string, string>();
  const metadata = new Map<string, string>();
  for (const { root, path, value } of pairs) {
    if (WATCHED.has(root.toLowerCase())) {
      if (!WATCHED.has(root) || path !== '' || top.has(root)) return refuse('amount_ambiguous');
      top.set(root, value);
    }
    if (root !== 'metadata' || path === '') continue;
    const name = path.slice(1, -1);
    if (name === '' || name.includes('][') || metadata.has(name)) return refuse('unreadable_body');
    metadata.set(name, value);
  }
  const money = readMoney(top, endpoint);
  if (typeof money === 'string') return refuse(money);
  const facts: FormFacts = {
    ...money,
    stripeCustomer: emptyToNull(top.get('customer')),
    marks: marksOf(metadata),
    namespace: emptyToNull(metadata.get(OUR_METADATA.namespace)),
    period: emptyToNull(metadata.get(OUR_METADATA.period)),
    customerId: emptyToNull(metadata.get(OUR_METADATA.customerId)),
  };
  return { ok: true, facts };
}

type Money = Pick<FormFacts, 'amountMinor' | 'currency'>;

function readMoney(
  top: ReadonlyMap<string, string>,
  { kind, object, objectId }: FormOf,
): Money | FormProblem {
  switch (kind) {
    case 'create': {
      const [amount, currency] = [top.get('amount'), top.get('currency')];
      if (amount === undefined || currency === undefined) return 'amount_missing';
      if (!AMOUNT.test(amount)) return 'amount_invalid';
      if (!CURRENCY.test(currency)) return 'currency_invalid';
      // These belong to other calls; a create that honoured one would spend what nobody reserved.
      if (top.has('amount_to_capture') || top.has('amount_to_confirm')) return 'amount_ambiguous';
      if (object === 'charge' && (top.get('capture') ?? 'true') !== 'true') {
        return 'capture_not_supported';
      }
      return { amountMinor: Number(amount), currency: currency.toLowerCase() };
    }
    case 'capture': {
      if (['amount', 'amount_to_confirm', 'currency'].some((name) => top.has(name)))
        return 'amount_ambiguous';
      const amount = top.get('amount_to_capture');
      if (amount === undefined) return NO_MONEY;
      return AMOUNT.test(amount)
        ? { amountMinor: Number(amount), currency: null }
        : 'amount_invalid';
    }
    case 'confirm':
    case 'cancel':
      // The sum is that of the create; a confirm that names one would be about another.
      return SUMS.some((name) => top.has(name)) ? 'amount_ambiguous' : NO_MONEY;
    case 'plain':
    case 'read':
      // Old API versions, which the client chooses, start a subscription when a customer is written with a plan.
      if (top.has('plan')) return 'amount_ambiguous';
      // An update that changed the sum, or took it, would leave the reservation behind. The amount of a refund is its own
      // matter.
      return objectId !== null && [...SUMS, 'confirm'].some((name) => top.has(name))
        ? 'amount_ambiguous'
        : NO_MONEY;
  }
}

const SUMS = ['amount', 'amount_to_capture', 'amount_to_confirm', 'currency'];
const NO_MONEY: Money = { amountMinor: null, currency: null };

interface Pair {
  readonly root: string;
  /** what follows the root, with its brackets */
  readonly path: string;
  readonly value: string;
}

function readPairs(body: Buffer): Pair[] | null {
  const text = decodeUtf8(body);
  // Some form parsers split at `;` as well, so a raw one would hide or show a parameter.
  if (text === null || text.includes(';') || text.includes('\0')) return null;
  const pairs: Pair[] = [];
  for (const part of text.split('&')) {
    if (part === '') continue;
    const equals = part.indexOf('=');
    const name = unescape(equals === -1 ? part : part.slice(0, equals));
    const value = unescape(equals === -1 ? '' : part.slice(equals + 1));
    const [, root, path] = NAME.exec(name ?? '') ?? [];
    if (root === undefined || path === undefined || value === null) return null;
    pairs.push({ root, path, value });
    if (pairs.length > MAX_PAIRS) return null;
  }
  return pairs;
}

function decodeUtf8(bytes: Buffer): string | null {
  try {
    // A byte order mark stays, and then no name fits.
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return null;
  }
}

/** Plus signs and percent escapes; null for half an escape or one that is no UTF-8. */
function unescape(text: string): string | null {
  try {
    const value = decodeURIComponent(text.replaceAll('+', ' '));
    return value.includes('\0') ? null : value;
  } catch {
    return null;
  }
}

function emptyToNull(text: string | undefined): string | null {
  return text === undefined || text === '' ? null : text;
}

function refuse(code: FormProblem): Form {
  return { ok: false, code };
}
