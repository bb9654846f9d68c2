import { currencyRule, minimumChargeMinor } from './currencies.ts';
import type { Currency } from './currencies.ts';

/** An amount as Stripe takes it; amount and currency always travel together. */
export type Money = { readonly amountMinor: number; readonly currency: Currency };

/** Stripe takes at most eight digits in the minor unit (docs.stripe.com/currencies). */
export const MAX_AMOUNT_MINOR = 99_999_999;

const DECIMAL = /^(0|[1-9][0-9]*)(?:\.([0-9]+))?$/;

export type ParsedAmount =
  | { readonly ok: true; readonly amountMinor: number }
  | { readonly ok: false; readonly problem: string };

/**
 * Reads a decimal string in major units ("17.99") into Stripe's minor units, digit by digit:
 * no float is involved. Nothing is rounded; what does not fit is a problem. Zero is an amount.
 */
export function parseAmountMajor(text: string, currency: Currency): ParsedAmount {
  const match = DECIMAL.exec(text);
  if (match === null) return { ok: false, problem: shapeProblem(text) };
  const { decimals, stepMinor } = currencyRule(currency);
  const code = currency.toUpperCase();
  const whole = match[1] ?? '';
  const fraction = match[2] ?? '';
  if (fraction.length > decimals) {
    const allowed = decimals === 0 ? 'no decimals' : `at most ${decimals} decimals`;
    return {
      ok: false,
      problem: `"${text}" has ${fraction.length} decimals; ${code} has ${allowed}`,
    };
  }
  // Length before Number(): a long digit string would otherwise lose digits silently.
  const digits = (whole + fraction.padEnd(decimals, '0')).replace(/^0+(?=\d)/, '');
  if (digits.length > String(MAX_AMOUNT_MINOR).length) {
    return {
      ok: false,
      problem: `"${text}" is too large; Stripe takes at most ${formatAmountMajor(MAX_AMOUNT_MINOR, currency)} ${code}`,
    };
  }
  const amountMinor = Number(digits);
  if (amountMinor % stepMinor !== 0) return { ok: false, problem: stepProblem(text, currency) };
  return { ok: true, amountMinor };
}

function shapeProblem(text: string): string {
  if (text === '') return 'the amount is empty; write 0 for nothing to charge';
  if (text.startsWith('-')) return `"${text}" is negative; an amount to charge is 0 or more`;
  return `${JSON.stringify(text)} is not an amount; write digits with a point for decimals, such as 17.99`;
}

function stepProblem(text: string, currency: Currency): string {
  const code = currency.toUpperCase();
  return currencyRule(currency).stepMinor === 100
    ? `"${text}" has a fraction; ${code} is charged in whole units`
    : `"${text}" ends in a digit other than 0; Stripe charges ${code} in steps of 0.010`;
}

/** Why an amount cannot be charged, or undefined. Zero is refused: there is nothing to charge. */
export function chargeProblem({ amountMinor, currency }: Money): string | undefined {
  assertAmountMinor(amountMinor);
  const shown = formatMoney(amountMinor, currency);
  const minimum = minimumChargeMinor(currency);
  if (amountMinor < minimum) {
    return `${shown} is below Stripe's minimum of ${formatMoney(minimum, currency)}`;
  }
  if (amountMinor > MAX_AMOUNT_MINOR) {
    return `${shown} is above Stripe's maximum of ${formatMoney(MAX_AMOUNT_MINOR, currency)}`;
  }
  if (amountMinor % currencyRule(currency).stepMinor !== 0) {
    return stepProblem(formatAmountMajor(amountMinor, currency), currency);
  }
  return undefined;
}

/** "17.99": all decimals, no grouping; `parseAmountMajor` reads it back. Sums and differences too. */
export function formatAmountMajor(amountMinor: number, currency: Currency): string {
  assertAmountMinor(amountMinor);
  const { decimals } = currencyRule(currency);
  const sign = amountMinor < 0 ? '-' : '';
  const digits = String(Math.abs(amountMinor)).padStart(decimals + 1, '0');
  if (decimals === 0) return sign + digits;
  return `${sign}${digits.slice(0, -decimals)}.${digits.slice(-decimals)}`;
}

/** "17.99 USD", for people. */
export function formatMoney(amountMinor: number, currency: Currency): string {
  return `${formatAmountMajor(amountMinor, currency)} ${currency.toUpperCase()}`;
}

/** Beyond 2^53 a number loses cents without a sound; nothing like that may pass. */
export function assertAmountMinor(amountMinor: number): void {
  if (!Number.isSafeInteger(amountMinor)) {
    throw new RangeError(`Not an amount in minor units: ${amountMinor}`);
  }
}
