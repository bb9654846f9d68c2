import { z } from 'zod';
import { parseBillingPeriod, type BillingPeriod } from '../domain/billing-period.ts';
import { parseCurrency, type Currency } from '../domain/currencies.ts';
import { parseEndpoint } from './endpoints.ts';

type CapBasis = 'billing_period' | 'day' | 'total';

/** A key as somebody asks for it, all of it checked, defaults filled in. */
export interface KeyOrder {
  readonly capBasis: CapBasis;
  readonly currency: Currency;
  readonly capMinor: number;
  readonly period: BillingPeriod | null;
  readonly allowedEndpoints: readonly string[];
  readonly expiresAt: Date;
  readonly operator: string;
}

/** A change of a key: its cap is raised, or its end comes later. */
export type KeyChange =
  | {
      readonly kind: 'raise';
      readonly currency: Currency;
      readonly capMinor: number;
      readonly reason: string;
      readonly operator: string;
    }
  | {
      readonly kind: 'extend';
      readonly expiresAt: Date;
      readonly reason: string;
      readonly operator: string;
    };

export interface RevokeOrder {
  readonly reason: string;
  readonly operator: string;
}

/** Why a body is refused: the first field that is wrong; `param` is null when it is the body as a whole. */
export interface BodyProblem {
  readonly code: 'parameter_missing' | 'parameter_unknown' | 'parameter_invalid' | 'body_invalid';
  readonly param: string | null;
  readonly message: string;
}

export type ReadBody<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly problem: BodyProblem };

const DAY_MS = 24 * 60 * 60 * 1000;
/** A key that nobody gave an end covers a month and the settling of what was in doubt. */
const DEFAULT_LIFE_DAYS = 45;
/** A key that lives longer is one that nobody remembers. */
const MAX_LIFE_DAYS = 400;
const MAX_ENDPOINTS = 50;

const amount = z
  .int('must be a whole number of minor units, such as 5000 for 50.00 USD')
  .min(1, 'must be at least 1: a cap of 0 would allow nothing')
  .max(Number.MAX_SAFE_INTEGER);
const time = z.iso.datetime({
  offset: true,
  error: 'must be a time with its zone, such as 2026-12-31T23:59:59Z',
});
const who = z.string().trim().min(1, 'must say who').max(200);
const why = z.string().trim().min(1, 'must say why').max(1_000);

const keySchema = z.strictObject({
  vendor: z.literal('stripe', 'only "stripe" is known: another vendor\'s money cannot be counted'),
  max_amount: amount.optional(),
  daily_usd_cap: z.union([z.number(), z.string()]).optional(),
  currency: z.string().optional(),
  cap_basis: z
    .enum(['billing_period', 'day', 'total'], 'must be "billing_period", "day" or "total"')
    .optional(),
  billing_period: z.string().optional(),
  allowed_endpoints: z
    .array(z.string().max(300))
    .min(1, 'must name at least one endpoint: what is not named is refused')
    .max(MAX_ENDPOINTS),
  expires_at: time.optional(),
  operator: who.default('admin'),
});

const changeSchema = z.strictObject({
  currency: z.string().optional(),
  max_amount: amount.optional(),
  expires_at: time.optional(),
  reason: why,
  operator: who,
});

const revokeSchema = z.strictObject({ reason: why, operator: who });

/** Reads the body of `POST /vault/keys`; changes nothing. */
export function readKeyOrder(body: unknown, now: Date): ReadBody<KeyOrder> {
  const shape = readShape(keySchema, body);
  if (!shape.ok) return shape;
  const given = shape.value;
  const cap = readCap(given);
  if (!cap.ok) return cap;
  const period = readPeriod(given);
  if (!period.ok) return period;
  const allowedEndpoints: string[] = [];
  for (const [i, text] of given.allowed_endpoints.entries()) {
    const endpoint = parseEndpoint(text);
    if (!endpoint.ok) return invalid(`allowed_endpoints[${i}]`, endpoint.problem);
    if (allowedEndpoints.includes(endpoint.endpoint))
      return invalid(`allowed_endpoints[${i}]`, `${JSON.stringify(text)} is named twice`);
    allowedEndpoints.push(endpoint.endpoint);
  }
  const expiresAt = readExpiry(given.expires_at, now);
  if (!expiresAt.ok) return expiresAt;
  const { operator } = given;
  return {
    ok: true,
    value: {
      ...cap.value,
      period: period.value,
      allowedEndpoints,
      expiresAt: expiresAt.value,
      operator,
    },
  };
}

/** Reads the body of `PATCH /vault/keys/:id`: one change at a time, since each has its own reason in the log. */
export function readKeyChange(body: unknown, now: Date): ReadBody<KeyChange> {
  const shape = readShape(changeSchema, body);
  if (!shape.ok) return shape;
  const { currency, max_amount: capMinor, expires_at: end, reason, operator } = shape.value;
  if (end !== undefined) {
    if (capMinor !== undefined)
      return invalid('expires_at', 'one change at a time: max_amount or expires_at');
    if (currency !== undefined) return invalid('currency', 'belongs to max_amount');
    const expiresAt = readExpiry(end, now);
    if (!expiresAt.ok) return expiresAt;
    return { ok: true, value: { kind: 'extend', expiresAt: expiresAt.value, reason, operator } };
  }
  if (capMinor === undefined) return missing('max_amount', 'the cap in minor units, or expires_at');
  if (currency === undefined) return missing('currency', 'the currency of the cap to raise');
  const parsed = parseCurrency(currency);
  if (!parsed.ok) return invalid('currency', parsed.problem);
  return {
    ok: true,
    value: { kind: 'raise', currency: parsed.currency, capMinor, reason, operator },
  };
}

/** Reads the body of `DELETE /vault/keys/:id`. */
export function readRevokeOrder(body: unknown): ReadBody<RevokeOrder> {
  return readShape(revokeSchema, body);
}

type GivenKey = z.infer<typeof keySchema>;

function readCap(given: GivenKey): ReadBody<Pick<KeyOrder, 'capBasis' | 'currency' | 'capMinor'>> {
  const { max_amount: maxAmount, daily_usd_cap: daily } = given;
  if (maxAmount !== undefined && daily !== undefined)
    return invalid('daily_usd_cap', 'one cap: max_amount or daily_usd_cap, not both');
  if (daily === undefined) {
    if (maxAmount === undefined)
      return missing('max_amount', 'the cap in minor units, or daily_usd_cap in dollars');
    if (given.currency === undefined) return missing('currency', 'the currency of max_amount');
    const parsed = parseCurrency(given.currency);
    if (!parsed.ok) return invalid('currency', parsed.problem);
    const capBasis =
      given.cap_basis ?? (given.billing_period === undefined ? 'total' : 'billing_period');
    return { ok: true, value: { capBasis, currency: parsed.currency, capMinor: maxAmount } };
  }
  if (given.cap_basis !== undefined && given.cap_basis !== 'day')
    return invalid('cap_basis', `daily_usd_cap is a cap per day, not per ${given.cap_basis}`);
  if (given.currency !== undefined && given.currency.toLowerCase() !== 'usd')
    return invalid('currency', 'daily_usd_cap is in usd; max_amount takes any currency');
  const usd = parseCurrency('usd');
  if (!usd.ok) throw new Error(usd.problem);
  const capMinor = dollarsToMinor(String(daily));
  if (capMinor === null)
    return invalid('daily_usd_cap', 'must be dollars above 0 with at most 2 decimals, such as 500');
  return { ok: true, value: { capBasis: 'day', currency: usd.currency, capMinor } };
}

/** Digit by digit, so that no cent is lost to a float; null for 0 and for anything that is no sum. */
function dollarsToMinor(text: string): number | null {
  const match = /^(\d{1,12})(?:\.(\d{1,2}))?$/.exec(text);
  if (match === null) return null;
  const minor = Number(`${match[1]}${(match[2] ?? '').padEnd(2, '0')}`);
  return minor > 0 ? minor : null;
}

function readPeriod(given: GivenKey): ReadBody<BillingPeriod | null> {
  if (given.billing_period === undefined) {
    return given.cap_basis === 'billing_period'
      ? missing('billing_period', 'cap_basis billing_period needs it, such as 2026-11')
      : { ok: true, value: null };
  }
  const parsed = parseBillingPeriod(given.billing_period);
  if (!parsed.ok) return invalid('billing_period', parsed.problem);
  return { ok: true, value: parsed.period };
}

function readExpiry(text: string | undefined, now: Date): ReadBody<Date> {
  if (text === undefined)
    return { ok: true, value: new Date(now.getTime() + DEFAULT_LIFE_DAYS * DAY_MS) };
  const expiresAt = new Date(text);
  const lifeMs = expiresAt.getTime() - now.getTime();
  if (Number.isNaN(lifeMs)) return invalid('expires_at', 'is no time');
  if (lifeMs <= 0) return invalid('expires_at', `${text} is past: the key would be dead at once`);
  if (lifeMs > MAX_LIFE_DAYS * DAY_MS)
    return invalid('expires_at', `at most ${MAX_LIFE_DAYS} days ahead; extend the key later`);
  return { ok: true, value: expiresAt };
}

function readShape<T>(schema: z.ZodType<T>, body: unknown): ReadBody<T> {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    const message = 'the body must be a JSON object, sent as Content-Type: application/json';
    return { ok: false, problem: { code: 'body_invalid', param: null, message } };
  }
  const parsed = schema.safeParse(body, { error: (issue) => missingText(issue) });
  if (parsed.success) return { ok: true, value: parsed.data };
  // A name that is unknown explains one that is missing: a typing error makes both.
  const issues = parsed.error.issues;
  const issue = issues.find(({ code }) => code === 'unrecognized_keys') ?? issues[0];
  if (issue === undefined) throw new Error('zod refused without an issue');
  if (issue.code === 'unrecognized_keys') {
    const param = [...issue.path, issue.keys[0] ?? ''].map(String).join('.');
    const message = `${param} is not a parameter of this endpoint`;
    return { ok: false, problem: { code: 'parameter_unknown', param, message } };
  }
  const param = pathText(issue.path);
  return Object.hasOwn(body, String(issue.path[0]))
    ? invalid(param, issue.message)
    : missing(param, issue.message);
}

/** zod says "expected string, received undefined"; people say it is missing. */
function missingText(issue: { readonly input?: unknown; readonly code?: string | undefined }) {
  return issue.input === undefined && issue.code !== 'unrecognized_keys'
    ? 'it is required'
    : undefined;
}

/** `allowed_endpoints[2]`, as one would write it. */
function pathText(path: readonly PropertyKey[]): string {
  return path
    .map((part, i) =>
      typeof part === 'number' ? `[${part}]` : `${i === 0 ? '' : '.'}${String(part)}`,
    )
    .join('');
}

function invalid(param: string, said: string): { ok: false; problem: BodyProblem } {
  return {
    ok: false,
    problem: { code: 'parameter_invalid', param, message: `${param}: ${said}` },
  };
}

function missing(param: string, said: string): { ok: false; problem: BodyProblem } {
  return {
    ok: false,
    problem: { code: 'parameter_missing', param, message: `${param} is missing: ${said}` },
  };
}
